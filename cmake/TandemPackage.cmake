# tandem::tandem: one static library of all layers up to store, its public headers, and a CMake package.
include(CMakePackageConfigHelpers)

set(objects)
get_property(layers GLOBAL PROPERTY TANDEM_LAYERS)
foreach(layer IN LISTS layers)
  get_target_property(type ${layer} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:${layer}>)
  endif()
  if(layer STREQUAL "tandem_store")
    break()
  endif()
endforeach()
if(NOT objects OR NOT TARGET tandem_store)
  return()
endif()

if(TANDEM_CUDA)
  get_property(kernels GLOBAL PROPERTY TANDEM_CUDA_OBJECTS)
  list(APPEND objects ${kernels})
endif()
add_library(tandem_embedded STATIC ${objects})
add_library(tandem::tandem ALIAS tandem_embedded)
set_target_properties(tandem_embedded PROPERTIES OUTPUT_NAME tandem EXPORT_NAME tandem LINKER_LANGUAGE CXX)
target_compile_features(tandem_embedded PUBLIC cxx_std_20)
target_link_libraries(tandem_embedded PUBLIC Threads::Threads)
if(TANDEM_CUDA)
  target_link_libraries(tandem_embedded PUBLIC
    $<BUILD_INTERFACE:${TANDEM_CUDART}> $<INSTALL_INTERFACE:CUDA::cudart_static> ${CMAKE_DL_LIBS} rt)
endif()
target_include_directories(tandem_embedded PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(TARGETS tandem_embedded EXPORT tandem ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel FILES_MATCHING PATTERN "*.hpp")
install(EXPORT tandem FILE tandemTargets.cmake NAMESPACE tandem:: DESTINATION ${package} COMPONENT devel)
configure_package_config_file(cmake/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
  DESTINATION ${package} COMPONENT devel)
