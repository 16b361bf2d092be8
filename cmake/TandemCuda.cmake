# The .cu files of each layer, compiled for the data-centre and desktop GPUs that this nvcc knows. Compiling takes no GPU.

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

function(tandem_cuda name)
  tandem_sources(sources "src/${name}/*.cu")
  if(NOT sources)
    return()
  endif()
  add_library(tandem_${name}_cuda OBJECT ${sources})
  target_include_directories(tandem_${name}_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(tandem_${name}_cuda PRIVATE
    --expt-relaxed-constexpr -Werror=all-warnings -Xptxas=-warn-spills -Xcompiler=-Wall,-Wextra,-Werror)
  add_dependencies(tandem_cuda_objects tandem_${name}_cuda)
endfunction()

add_custom_target(tandem_cuda_objects)
