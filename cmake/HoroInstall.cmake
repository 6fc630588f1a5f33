# `cmake --install` installs libraries, public headers, programs, documentation, and the files for find_package(horo) and
# pkg-config. No file contains the prefix, which may be moved.
if(NOT HORO_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

# The components of find_package(horo), each after those that it links. A component X has targets (horo_library(... COMPONENT
# X)) and a file cmake/components/X.cmake.in with what its users must have.
set(HORO_KNOWN_COMPONENTS static horo c ops train torch)
get_property(_with_targets GLOBAL PROPERTY HORO_COMPONENTS)
set(HORO_COMPONENTS)
set(_dir ${CMAKE_INSTALL_LIBDIR}/cmake/horo)
foreach(_component ${HORO_KNOWN_COMPONENTS})
  if(_component IN_LIST _with_targets)
    install(EXPORT horo_${_component}_targets NAMESPACE horo:: DESTINATION ${_dir} COMPONENT ${_component})
  elseif(NOT _component STREQUAL horo)  # without HORO_SHARED, the component horo has no targets of its own
    continue()
  endif()
  list(APPEND HORO_COMPONENTS ${_component})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/components/${_component}.cmake.in
                 ${PROJECT_BINARY_DIR}/cmake/components/${_component}.cmake @ONLY)
  horo_install_files(${_component} ${_dir}/components ${PROJECT_BINARY_DIR}/cmake/components/${_component}.cmake)
endforeach()
if(NOT HORO_SHARED)
  set(HORO_CORE_REQUIRES static)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/horoConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/horoConfig.cmake INSTALL_DESTINATION ${_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/horoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
horo_install_files(horo ${_dir} ${PROJECT_BINARY_DIR}/cmake/horoConfig.cmake ${PROJECT_BINARY_DIR}/cmake/horoConfigVersion.cmake)
if(HORO_BUILD_OPS)
  horo_install_files(ops ${_dir} ${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake)
endif()
if(HORO_TORCH_FOUND)
  horo_install_files(torch ${_dir} ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake)
endif()

# horo_link_flags(VARIABLE TARGETS_OR_FILES...): the flags that link libraries, as -lNAME, with -L for folders that the compiler
# does not search. Ignores targets without a file, as those of header-only libraries.
function(horo_link_flags variable)
  set(flags)
  foreach(library ${ARGN})
    if(TARGET ${library})
      get_target_property(configurations ${library} IMPORTED_CONFIGURATIONS)
      list(GET configurations 0 configuration)
      get_target_property(file ${library} IMPORTED_LOCATION_${configuration})
      if(NOT file)
        get_target_property(file ${library} IMPORTED_LOCATION)
      endif()
    else()
      set(file ${library})
    endif()
    if(file MATCHES "^(.*)/lib([^/]+)\\.(so|a)[.0-9]*$")
      if(NOT CMAKE_MATCH_1 IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND flags -L${CMAKE_MATCH_1})
      endif()
      list(APPEND flags -l${CMAKE_MATCH_2})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES flags)
  list(JOIN flags " " flags)
  set(${variable} "${flags}" PARENT_SCOPE)
endfunction()

# Files for pkg-config. Their paths are relative to the folder of the file. The rpath lets programs start without
# LD_LIBRARY_PATH.
file(RELATIVE_PATH HORO_PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" HORO_PREFIX_FROM_PKGCONFIG ${HORO_PREFIX_FROM_PKGCONFIG})
set(_mpi_libraries ${MPI_CXX_LIBRARIES})
list(FILTER _mpi_libraries EXCLUDE REGEX "mpi_cxx|mpicxx")  # horo uses the C bindings only
horo_link_flags(_flags spdlog::spdlog fmt::fmt ${_mpi_libraries})
if(HORO_CUDA_FOUND)
  horo_link_flags(_cuda_flags CUDA::cudart_static)
  string(APPEND _flags " ${_cuda_flags} -lrt")
endif()
set(HORO_STATIC_FLAGS "\${libdir}/libhoro.a ${_flags} -ldl -pthread")
if(HORO_SHARED)
  set(HORO_CORE_FLAGS "-L\${libdir} -Wl,-rpath,\${libdir} -lhoro")
else()
  set(HORO_CORE_FLAGS "${HORO_STATIC_FLAGS}")
endif()
set(_pkgconfig_of_static horo_static)
set(_pkgconfig_of_horo horo)
set(_pkgconfig_of_c horo_c)
foreach(_component static horo c)
  if(_component IN_LIST HORO_COMPONENTS)
    set(_file ${_pkgconfig_of_${_component}}.pc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/pkgconfig/${_file}.in ${PROJECT_BINARY_DIR}/pkgconfig/${_file} @ONLY)
    horo_install_files(${_component} ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${PROJECT_BINARY_DIR}/pkgconfig/${_file})
  endif()
endforeach()

horo_install_files(horo ${CMAKE_INSTALL_DOCDIR} ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
                   ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT horo
        PATTERN conf.py EXCLUDE PATTERN Doxyfile EXCLUDE PATTERN site.css EXCLUDE)

# Removes the files of the latest `cmake --install`, and folders that are then empty.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    VERBATIM)
endif()
