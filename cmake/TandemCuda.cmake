# The .cu files of each layer, compiled for the data-centre and desktop GPUs that this nvcc knows, and the CUDA runtime,
# which is linked statically and loads the driver at run time. Neither compiling nor linking takes a GPU or a driver.

if(NOT CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/find_nvcc OUTPUT_VARIABLE nvcc OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_CUDA_COMPILER ${nvcc})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  foreach(architecture 80 90 100 120)
    if(known MATCHES "sm_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
    endif()
  endforeach()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows nvcc's standards only to 17
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()

find_library(TANDEM_CUDART cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

add_custom_target(tandem_cuda_programs)  # what can only be run beside a GPU, or is tested there, too

# tandem_cuda(NAME DIR TARGET): the layer's .cu files, whose objects it links, with the runtime; a program of each
# *_bench.cu.
function(tandem_cuda name dir layer)
  if(name STREQUAL "device")
    tandem_cuda_runtime(${layer})
  endif()
  tandem_sources(sources "${dir}/*.cu")
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_bench\\.cu$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cu$")
  if(NOT sources)
    return()
  endif()
  add_library(${layer}_cuda OBJECT ${sources})
  tandem_cuda_flags(${layer}_cuda)
  if(NOT name MATCHES "^bench/")  # the library has them
    set_property(GLOBAL APPEND PROPERTY TANDEM_CUDA_OBJECTS $<TARGET_OBJECTS:${layer}_cuda>)
  endif()
  # Objects, not an archive of them: so CMake links with the C++ compiler.
  target_link_libraries(${layer} PUBLIC $<TARGET_OBJECTS:${layer}_cuda>)
  foreach(source IN LISTS benches)
    cmake_path(GET source STEM bench)
    add_executable(${bench} EXCLUDE_FROM_ALL ${source})
    tandem_cuda_flags(${bench})
    set_target_properties(${bench} PROPERTIES
      LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_link_libraries(${bench} PRIVATE $<TARGET_OBJECTS:${layer}_cuda>)
    target_link_options(${bench} PRIVATE $<TARGET_PROPERTY:tandem_flags,INTERFACE_LINK_OPTIONS>)
    tandem_cuda_link(${bench} PRIVATE)
    add_dependencies(tandem_cuda_programs ${bench})
  endforeach()
endfunction()

function(tandem_cuda_flags target)
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE TANDEM_CUDA=1)
  target_compile_options(${target} PRIVATE
    --expt-relaxed-constexpr -Werror=all-warnings -Xptxas=-warn-spills -Xcompiler=-Wall,-Wextra,-Werror)
endfunction()

function(tandem_cuda_link target scope)
  target_link_libraries(${target} ${scope} ${TANDEM_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

# tandem_cuda_runtime(TARGET): it calls the runtime.
function(tandem_cuda_runtime target)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  tandem_cuda_link(${target} PUBLIC)
endfunction()
