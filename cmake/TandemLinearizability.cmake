# The recorder of tests/linearizability; and it and the server with planted bugs (`make test-canaries`).
tandem_sources(recorder "tests/linearizability/recorder/*.cpp")
add_library(recorder OBJECT ${recorder})
target_link_libraries(recorder PRIVATE tandem_embedded)
tandem_unity(recorder)
add_executable(linearizability_recorder $<TARGET_OBJECTS:recorder>)
target_link_libraries(linearizability_recorder PRIVATE tandem_embedded)
set_target_properties(linearizability_recorder PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test)

# The layers that have planted bugs, compiled with them: which one bites is said at run time (canary.hpp). All of their
# objects are linked, so that nothing is taken from their libraries.
foreach(layer heap index placement task lane)
  get_target_property(sources tandem_${layer} SOURCES)
  get_target_property(below tandem_${layer} LINK_LIBRARIES)
  add_library(canary_${layer} OBJECT EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(canary_${layer} PRIVATE TANDEM_CANARY=1)
  target_compile_options(canary_${layer} PRIVATE -include ${PROJECT_SOURCE_DIR}/tests/linearizability/canary.hpp)
  target_link_libraries(canary_${layer} PRIVATE ${below})
  tandem_unity(canary_${layer})
endforeach()

add_executable(canary_recorder EXCLUDE_FROM_ALL $<TARGET_OBJECTS:recorder>)
target_link_libraries(canary_recorder PRIVATE canary_heap canary_index canary_placement canary_task canary_lane tandem_embedded)
add_executable(canary_tandem EXCLUDE_FROM_ALL src/cli/main.cpp)
target_link_libraries(canary_tandem PRIVATE canary_heap canary_index canary_placement canary_task canary_lane tandem_cli)
set_target_properties(canary_recorder canary_tandem PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/canary)
add_custom_target(tandem_canaries DEPENDS canary_recorder canary_tandem)
