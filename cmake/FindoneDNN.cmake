# Finds oneDNN. Result: oneDNN_FOUND, oneDNN_VERSION, target oneDNN::oneDNN
# (Debian's own package configuration asks for OpenCL, which horo does not need.)
# The header is that of the library. Other packages bring headers of other versions, for example libtorch, whose folder may be
# in CMAKE_PREFIX_PATH.
find_library(oneDNN_LIBRARY NAMES dnnl)
get_filename_component(_lib_dir "${oneDNN_LIBRARY}" DIRECTORY)
find_path(oneDNN_INCLUDE_DIR dnnl.hpp HINTS ${_lib_dir}/../include ${_lib_dir}/../../include NO_DEFAULT_PATH)
find_path(oneDNN_INCLUDE_DIR dnnl.hpp)
if(oneDNN_INCLUDE_DIR)
  file(GLOB _version_files ${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h
       ${oneDNN_INCLUDE_DIR}/dnnl_version.h)
  foreach(_file ${_version_files})
    file(STRINGS ${_file} _v REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    if(_v MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+)")
      set(oneDNN_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
    endif()
  endforeach()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR
                                  VERSION_VAR oneDNN_VERSION)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES IMPORTED_LOCATION ${oneDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${oneDNN_INCLUDE_DIR})
endif()
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)
