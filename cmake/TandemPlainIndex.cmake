# tests/plain_index: a second kind of index behind the whole store. The program, and the recorder of
# tests/linearizability, with the preset `plain` beside the others.
add_library(plain_kind OBJECT tests/plain_index/kind.cpp)
target_link_libraries(plain_kind PRIVATE tandem_embedded)
add_executable(plain_index_tandem src/cli/main.cpp $<TARGET_OBJECTS:plain_kind>)
target_link_libraries(plain_index_tandem PRIVATE tandem_cli)
add_executable(plain_index_recorder $<TARGET_OBJECTS:recorder> $<TARGET_OBJECTS:plain_kind>)
target_link_libraries(plain_index_recorder PRIVATE tandem_embedded)
set_target_properties(plain_index_tandem plain_index_recorder PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plain_index)
add_dependencies(tandem_tests plain_index_tandem plain_index_recorder)
