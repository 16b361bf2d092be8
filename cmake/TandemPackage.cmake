# tandem::tandem: one static library of all layers up to embedded, for C++; tandem::c: the same as a shared library with C's
# interface alone (include/tandem/tandem.h). Their headers, a CMake package, files of pkg-config.
include(CMakePackageConfigHelpers)

set(objects)
get_property(layers GLOBAL PROPERTY TANDEM_LAYERS)
foreach(layer IN LISTS layers)
  get_target_property(type ${layer} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:${layer}>)
  endif()
  if(layer STREQUAL "tandem_embedded")
    break()
  endif()
endforeach()
if(NOT objects OR NOT TARGET tandem_embedded)
  return()
endif()

if(TANDEM_CUDA)
  get_property(kernels GLOBAL PROPERTY TANDEM_CUDA_OBJECTS)
  list(APPEND objects ${kernels})
endif()
add_library(tandem_static STATIC ${objects})
add_library(tandem::tandem ALIAS tandem_static)
set_target_properties(tandem_static PROPERTIES OUTPUT_NAME tandem EXPORT_NAME tandem LINKER_LANGUAGE CXX)
target_compile_features(tandem_static PUBLIC cxx_std_20)
target_link_libraries(tandem_static PUBLIC Threads::Threads)
if(TANDEM_CUDA)
  target_link_libraries(tandem_static PUBLIC
    $<BUILD_INTERFACE:${TANDEM_CUDART}> $<INSTALL_INTERFACE:CUDA::cudart_static> ${CMAKE_DL_LIBS} rt)
endif()
target_include_directories(tandem_static PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(TARGETS tandem_static EXPORT tandem ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
# The soname: a change that programs built before would notice is a new one.
set(TANDEM_ABI 0)
if(NOT TANDEM_STATIC)
  add_library(tandem_shared SHARED ${objects})
  add_library(tandem::c ALIAS tandem_shared)
  set_target_properties(tandem_shared PROPERTIES OUTPUT_NAME tandem EXPORT_NAME c LINKER_LANGUAGE CXX
    VERSION ${TANDEM_ABI}.${PROJECT_VERSION} SOVERSION ${TANDEM_ABI}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/tandem.map)
  target_link_libraries(tandem_shared PRIVATE Threads::Threads)
  target_link_options(tandem_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tandem.map)
  if(TANDEM_SANITIZE)  # the program that loads it brings the sanitizer's functions
    target_link_options(tandem_shared PRIVATE $<TARGET_PROPERTY:tandem_flags,INTERFACE_LINK_OPTIONS>)
  else()
    target_link_options(tandem_shared PRIVATE -Wl,-z,defs)
  endif()
  if(TANDEM_CUDA)
    target_link_libraries(tandem_shared PRIVATE ${TANDEM_CUDART} ${CMAKE_DL_LIBS} rt)
  endif()
  target_include_directories(tandem_shared INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS tandem_shared EXPORT tandem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    NAMELINK_COMPONENT devel)
endif()
install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
configure_file(cmake/install_pkgconfig.cmake.in ${PROJECT_BINARY_DIR}/install_pkgconfig.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install_pkgconfig.cmake COMPONENT devel)
install(EXPORT tandem FILE tandemTargets.cmake NAMESPACE tandem:: DESTINATION ${package} COMPONENT devel)
configure_package_config_file(cmake/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
  DESTINATION ${package} COMPONENT devel)
