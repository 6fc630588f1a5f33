# `cmake --install` installs libraries, public headers, programs, and the package files for find_package(horo).
include(CMakePackageConfigHelpers)
set(_dir ${CMAKE_INSTALL_LIBDIR}/cmake/horo)
install(EXPORT horoTargets NAMESPACE horo:: DESTINATION ${_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/horoConfig.cmake.in
  ${PROJECT_BINARY_DIR}/horoConfig.cmake INSTALL_DESTINATION ${_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/horoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/horoConfig.cmake ${PROJECT_BINARY_DIR}/horoConfigVersion.cmake
        ${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake DESTINATION ${_dir})
