# Debian packages by CPack: tandem (server), libtandem0 (the shared library) and tandem-dev (the embedded store). `make deb`.
set(TANDEM_MAINTAINER "Tandem maintainers <tandem@localhost>" CACHE STRING "Name and address in Debian packages")

file(STRINGS src/options/version.hpp changelog_date REGEX "version_date")
string(REGEX MATCH "[0-9]+-[0-9]+-[0-9]+" changelog_date "${changelog_date}")
execute_process(COMMAND date -R -u -d "${changelog_date}" OUTPUT_VARIABLE changelog_date
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
configure_file(deploy/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog.Debian @ONLY)

set(CPACK_TANDEM_CHANGELOG ${PROJECT_BINARY_DIR}/debian/changelog.Debian)
set(CPACK_TANDEM_COPYRIGHT ${PROJECT_SOURCE_DIR}/deploy/debian/copyright)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_CONTACT "${TANDEM_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "in-memory key-value store that speaks memcached's protocol")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_TANDEM_STRIP ${CMAKE_STRIP})
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu
    ${CMAKE_SYSROOT}/lib/aarch64-linux-gnu)
endif()
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL server library devel)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME tandem)
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION database)
set(CPACK_DEBIAN_SERVER_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_SERVER_PACKAGE_PREDEPENDS "init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/debian/postinst
  ${PROJECT_SOURCE_DIR}/deploy/debian/prerm ${PROJECT_SOURCE_DIR}/deploy/debian/postrm
  ${PROJECT_SOURCE_DIR}/deploy/debian/conffiles)
set(CPACK_COMPONENT_SERVER_DESCRIPTION "Clients of memcached talk to it unchanged, over the text and the meta
protocol, TCP, UDP and Unix sockets. Queries flow in batches through small
tasks, so that their cache misses overlap.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtandem${TANDEM_ABI})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
configure_file(deploy/debian/shlibs.in ${PROJECT_BINARY_DIR}/debian/shlibs @ONLY)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs
  ${PROJECT_SOURCE_DIR}/deploy/debian/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The store of the tandem server as a shared library with C's interface, for
programs that keep the data in their own process.")

set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME tandem-dev)
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS "libtandem${TANDEM_ABI} (= ${PROJECT_VERSION}-1)")
set(CPACK_TANDEM_LIBRARY libtandem${TANDEM_ABI})
set(CPACK_COMPONENT_DEVEL_DESCRIPTION "The store of the tandem server as a static library, with its headers, a
CMake package and files of pkg-config, for programs that keep the data in
their own process.")
include(CPack)
