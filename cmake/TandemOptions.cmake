# Build type, options, and `tandem_flags`: the compile flags that every target of ours gets.

set(TANDEM_SANITIZE "" CACHE STRING "address (with undefined behaviour), thread, or empty")
set_property(CACHE TANDEM_SANITIZE PROPERTY STRINGS "" address thread)
option(TANDEM_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(TANDEM_CUDA "Run the index on NVIDIA GPUs (building needs nvcc; no GPU)" OFF)
option(TANDEM_DEBUG_COMMANDS "Build the commands debugtime and debugitem into the server" OFF)
option(TANDEM_TESTS "Build tests, benchmarks and examples" ${PROJECT_IS_TOP_LEVEL})
option(TANDEM_UNITY "Compile several sources at a time, in half the time: for a build that is made once" OFF)
set(TANDEM_COMMIT "" CACHE STRING "Commit id that benchmark documents name; empty: git's")
option(TANDEM_STATIC "Link programs statically (with TANDEM_CUDA, all but the C library), to be carried elsewhere" OFF)
option(TANDEM_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Hidden symbols keep position-independent code, which a shared library around the embedded store needs, free of charge:
# calls and thread-locals stay direct.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# No -march: the baseline processor runs everything, wider instructions live in target regions picked at run time.
add_library(tandem_flags INTERFACE)
target_compile_features(tandem_flags INTERFACE cxx_std_20)
target_compile_options(tandem_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wcast-qual -Wcast-align
  -Wnon-virtual-dtor -Woverloaded-virtual -Wdouble-promotion -Wformat=2 -Wimplicit-fallthrough -Wundef
  -Wextra-semi -Wmissing-declarations
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wno-psabi>
  $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wthread-safety -Wno-psabi>
  $<$<BOOL:${TANDEM_WERROR}>:-Werror>
  -fno-omit-frame-pointer -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_definitions(tandem_flags INTERFACE $<$<BOOL:${TANDEM_DEBUG_COMMANDS}>:TANDEM_DEBUG_COMMANDS=1>)
target_include_directories(tandem_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(tandem_flags INTERFACE Threads::Threads)

if(TANDEM_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(TANDEM_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(TANDEM_SANITIZE)
  message(FATAL_ERROR "TANDEM_SANITIZE=${TANDEM_SANITIZE}: want address, thread or nothing")
endif()
if(TANDEM_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # asserts stay
  target_compile_options(tandem_flags INTERFACE ${sanitize})
  target_compile_definitions(tandem_flags INTERFACE TANDEM_SANITIZED=1)  # long tests do less
  target_link_options(tandem_flags INTERFACE ${sanitize})
endif()
if(TANDEM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TANDEM_FUZZ needs clang")
  endif()
  # Not in tests, which take a third longer to compile with it; no fuzzer runs them.
  target_compile_options(tandem_flags INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TANDEM_UNFUZZED>>>:-fsanitize=fuzzer-no-link>)
  target_link_options(tandem_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Distributions have no archives of civetweb, prometheus-cpp and Google Benchmark: a static server has no monitoring
# endpoint, and there are no micro-benchmarks. fmt and spdlog are compiled in from their headers.
set(TANDEM_HTTP ON)
if(TANDEM_STATIC)
  set(TANDEM_HTTP OFF)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
  if(TANDEM_CUDA)  # a program that is linked to the C library statically cannot load the driver
    target_link_options(tandem_flags INTERFACE -static-libstdc++ -static-libgcc)
  else()
    target_link_options(tandem_flags INTERFACE -static-pie)
  endif()
endif()

if(TANDEM_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  if(NOT TANDEM_STATIC)
    find_package(benchmark REQUIRED)
  endif()
endif()

# tandem-member, which talks to etcd by libcurl. A static one would need the archives of all that Debian's libcurl uses.
set(TANDEM_MEMBER OFF)
if(NOT TANDEM_STATIC)
  find_package(CURL)
  set(TANDEM_MEMBER ${CURL_FOUND})
endif()
if(NOT TANDEM_MEMBER)
  message(STATUS "Static, or no libcurl: tandem-member is not built")
endif()
