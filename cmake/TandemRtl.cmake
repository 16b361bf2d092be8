# Models of rtl/*.sv by Verilator, the driver RtlDispatcher, and their tests: rtl_test. Nothing of the product links them.
# Left out where there is no Verilator 5, and with sanitizers: generated code takes long to compile, and is not ours.
add_custom_target(rtl_models)  # their sources, which a linter needs
find_program(TANDEM_VERILATOR verilator)
mark_as_advanced(TANDEM_VERILATOR)
if(NOT TANDEM_VERILATOR OR TANDEM_SANITIZE)
  return()
endif()
execute_process(COMMAND ${TANDEM_VERILATOR} --version OUTPUT_VARIABLE verilator_version COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "[0-9.]+" verilator_version "${verilator_version}")
if(verilator_version VERSION_LESS 5)
  return()
endif()
execute_process(COMMAND ${TANDEM_VERILATOR} --getenv VERILATOR_ROOT
  OUTPUT_VARIABLE verilator_root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
tandem_sources(rtl_designs "rtl/*.sv")

find_package(Threads REQUIRED)
add_library(rtl_verilated STATIC EXCLUDE_FROM_ALL
  ${verilator_root}/include/verilated.cpp ${verilator_root}/include/verilated_threads.cpp)
set_target_properties(rtl_verilated PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
target_include_directories(rtl_verilated SYSTEM PUBLIC ${verilator_root}/include ${verilator_root}/include/vltstd)
target_compile_options(rtl_verilated PRIVATE -w -O1)
target_link_libraries(rtl_verilated PUBLIC Threads::Threads)

# tandem_rtl_model(NAME TOP PARAMETERS...): the class V<NAME> of module TOP, in library rtl_<NAME>.
function(tandem_rtl_model name top)
  set(dir ${PROJECT_BINARY_DIR}/rtl/${name})
  list(TRANSFORM ARGN PREPEND -G)
  # Warnings are the linter's (scripts/gates.py): another version may have others.
  add_custom_command(OUTPUT ${dir}/all.cpp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${dir}
    COMMAND ${TANDEM_VERILATOR} --cc -Wno-fatal -O3 --Mdir ${dir} --prefix V${name} --top-module ${top} ${ARGN}
      -y ${PROJECT_SOURCE_DIR}/rtl ${PROJECT_SOURCE_DIR}/rtl/${top}.sv
    COMMAND sh -c "for file in ${dir}/V${name}*.cpp; do echo \"#include \\\"$file\\\"\"; done > ${dir}/all.cpp"
    DEPENDS ${rtl_designs} BYPRODUCTS ${dir}/V${name}.h COMMENT "Verilating ${top} as V${name}" VERBATIM)
  add_custom_target(rtl_model_${name} DEPENDS ${dir}/all.cpp)
  add_dependencies(rtl_models rtl_model_${name})
  add_library(rtl_${name} STATIC EXCLUDE_FROM_ALL ${dir}/all.cpp)
  add_dependencies(rtl_${name} rtl_model_${name})
  set_target_properties(rtl_${name} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)  # not ours to lint
  target_include_directories(rtl_${name} SYSTEM PUBLIC ${dir})
  target_compile_options(rtl_${name} PRIVATE -w -O1 -g0)
  target_link_libraries(rtl_${name} PUBLIC rtl_verilated)
endfunction()

tandem_rtl_model(sorter merge_sorter)
tandem_rtl_model(wide_sorter merge_sorter W=4 LEVELS=5)
# Small nodes: splits are frequent, and go on beside each other. The other tree is the dispatcher's.
tandem_rtl_model(tree tree FANOUT=4 ROOT_FANOUT=32)
tandem_rtl_model(wide_tree tree)
tandem_rtl_model(head_table head_table)
tandem_rtl_model(dispatcher dispatcher)

add_library(tandem_rtl STATIC EXCLUDE_FROM_ALL rtl/rtl_dispatcher.cpp)
target_link_libraries(tandem_rtl PUBLIC tandem_flags PRIVATE rtl_dispatcher)
target_include_directories(tandem_rtl PUBLIC ${PROJECT_SOURCE_DIR})

tandem_sources(rtl_tests "rtl/*_test.cpp")
add_executable(rtl_test ${rtl_tests})
target_link_libraries(rtl_test PRIVATE tandem_rtl rtl_sorter rtl_wide_sorter rtl_tree rtl_wide_tree rtl_head_table)
tandem_gtest(rtl_test)
