# The C++ library of PyTorch. Defines LibTorch_FOUND, LibTorch_VERSION and the target LibTorch::LibTorch, which provides the
# headers and the libraries for the CPU.
#
# Looks below CMAKE_PREFIX_PATH and Torch_DIR, as find_package(Torch) does, and in the folders of the system. PyTorch's own
# package file is not used: if PyTorch was built with CUDA, it enables the language CUDA, and ends the configuration if the
# toolkit is missing. A program may use both: find_package(Torch) links the same libraries.
# A libtorch that was found before and has been removed is not used.
foreach(_variable LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)
  if(${_variable} AND NOT EXISTS ${${_variable}})
    unset(${_variable} CACHE)
  endif()
endforeach()
set(_prefixes)
foreach(_folder ${CMAKE_PREFIX_PATH} ${Torch_DIR} $ENV{Torch_DIR})
  # Besides the folder of libtorch, PyTorch documents the folder of its package files.
  list(APPEND _prefixes ${_folder} ${_folder}/../.. ${_folder}/../../..)
endforeach()
find_path(LibTorch_INCLUDE_DIR torch/csrc/autograd/variable.h HINTS ${_prefixes} PATH_SUFFIXES include)
find_path(LibTorch_API_INCLUDE_DIR torch/torch.h HINTS ${LibTorch_INCLUDE_DIR} PATH_SUFFIXES torch/csrc/api/include
          NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${LibTorch_INCLUDE_DIR}/../lib ${_prefixes} PATH_SUFFIXES lib)
find_library(LibTorch_C10_LIBRARY c10 HINTS ${LibTorch_INCLUDE_DIR}/../lib ${_prefixes} PATH_SUFFIXES lib)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)

set(LibTorch_VERSION)
foreach(_header ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h ${LibTorch_API_INCLUDE_DIR}/torch/version.h)
  if(NOT LibTorch_VERSION AND EXISTS ${_header})
    file(STRINGS ${_header} _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX REPLACE "[^;]*TORCH_VERSION_[A-Z]+ ([0-9]+)[^;]*" "\\1" _numbers "${_lines}")
    string(REPLACE ";" "." LibTorch_VERSION "${_numbers}")
  endif()
endforeach()

# Before version 2.6, the packages of PyPI had the old binary interface of the C++ library.
set(LibTorch_HAS_CXX11_ABI TRUE)
set(_reason "name the folder of libtorch in CMAKE_PREFIX_PATH")
set(_config ${LibTorch_INCLUDE_DIR}/../share/cmake/Torch/TorchConfig.cmake)
if(EXISTS ${_config})
  file(STRINGS ${_config} _lines REGEX "GLIBCXX_USE_CXX11_ABI=0")
  if(_lines)
    set(LibTorch_HAS_CXX11_ABI FALSE)
    set(_reason "${LibTorch_CPU_LIBRARY} was built with _GLIBCXX_USE_CXX11_ABI=0; use the \"cxx11 ABI\" archive of libtorch, or version 2.6 or later")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_HAS_CXX11_ABI
  VERSION_VAR LibTorch_VERSION REASON_FAILURE_MESSAGE "${_reason}")
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${LibTorch_INCLUDE_DIR} ${LibTorch_API_INCLUDE_DIR})
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY})
endif()
