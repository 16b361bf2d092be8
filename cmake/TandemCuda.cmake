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

# tandem_cuda(LAYER): the objects of its .cu files, which the layer `device` links.
function(tandem_cuda name)
  tandem_sources(sources "src/${name}/*.cu")
  if(NOT sources)
    return()
  endif()
  add_library(tandem_${name}_cuda OBJECT ${sources})
  target_include_directories(tandem_${name}_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(tandem_${name}_cuda PRIVATE
    --expt-relaxed-constexpr -Werror=all-warnings -Xptxas=-warn-spills -Xcompiler=-Wall,-Wextra,-Werror)
  set_property(GLOBAL APPEND PROPERTY TANDEM_CUDA_OBJECTS $<TARGET_OBJECTS:tandem_${name}_cuda>)
endfunction()

# tandem_cuda_runtime(TARGET): it calls the runtime and launches what the layers below it compiled.
function(tandem_cuda_runtime target)
  get_property(objects GLOBAL PROPERTY TANDEM_CUDA_OBJECTS)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  # Objects, not an archive of them: so CMake links with the C++ compiler.
  target_link_libraries(${target} PUBLIC ${objects} ${TANDEM_CUDART} ${CMAKE_DL_LIBS} rt)
endfunction()
