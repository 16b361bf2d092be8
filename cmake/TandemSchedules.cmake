# tests/schedules: the store with threads that take their turns as a seed says. The layers are those that ThreadSanitizer's
# build has; their calls of it come to the simulation, which is linked in its place.
tandem_sources(simulation "tests/schedules/*.cpp")
tandem_sources(recorded "tests/linearizability/recorder/*.cpp")
list(FILTER recorded EXCLUDE REGEX "/(main|store_target|tcp_target)\\.cpp$")
set(unseen ${simulation})
list(FILTER unseen EXCLUDE REGEX "/selftest\\.cpp$")
set_source_files_properties(${unseen} PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
add_library(simulated OBJECT ${simulation} ${recorded})
target_link_libraries(simulated PRIVATE tandem_embedded)

# tandem_schedules(NAME OBJECTS...): the program, with these in the place of the same ones of a layer.
function(tandem_schedules name)
  add_executable(${name} $<TARGET_OBJECTS:simulated>)
  # Behind all that asks for ThreadSanitizer.
  target_link_libraries(${name} PRIVATE ${ARGN} tandem_embedded -fno-sanitize=thread ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test)
endfunction()
tandem_schedules(schedules)
# With the planted bugs, of which none bites unless it is told to.
tandem_schedules(canary_schedules canary_heap canary_index canary_placement canary_task canary_lane)
