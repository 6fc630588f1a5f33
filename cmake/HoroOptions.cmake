# All build options.
include(CMakeDependentOption)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

option(HORO_WITH_MPI "Use MPI; without it, jobs have one rank, ranks in one process, or a horo::Bootstrap" ON)
set(HORO_WITH_CUDA AUTO CACHE STRING "Find the CUDA toolkit, NCCL and cuDNN: AUTO, ON (required) or OFF")
set_property(CACHE HORO_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(_default OFF)  # a project that contains horo asks for it
if(PROJECT_IS_TOP_LEVEL)
  set(_default AUTO)
endif()
set(HORO_WITH_TORCH ${_default} CACHE STRING "Build the adapter for libtorch: AUTO (if found), ON (required) or OFF")
set_property(CACHE HORO_WITH_TORCH PROPERTY STRINGS AUTO ON OFF)
set(HORO_SANITIZER "" CACHE STRING "Sanitizer of the whole build: empty, address (with undefined) or thread")
set_property(CACHE HORO_SANITIZER PROPERTY STRINGS "" address thread)
option(HORO_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)

# The parts. A project that contains horo gets the core alone, and turns on what it needs.
option(HORO_BUILD_OPS "Build horo::ops: tensors, layers, optimizers and data sets" ${PROJECT_IS_TOP_LEVEL})
option(HORO_BUILD_TRAIN "Build horo::train: the trainer and checkpoints" ${PROJECT_IS_TOP_LEVEL})
option(HORO_BUILD_C "Build the C interface" ${PROJECT_IS_TOP_LEVEL})
option(HORO_BUILD_LAUNCHER "Build hororun" ${PROJECT_IS_TOP_LEVEL})
option(HORO_BUILD_EXAMPLES "Build the example programs and benchmarks" ${PROJECT_IS_TOP_LEVEL})
if(PROJECT_IS_TOP_LEVEL)
  option(BUILD_TESTING "Build the tests" ON)
endif()
cmake_dependent_option(HORO_BUILD_TESTS "Build the tests" ON "PROJECT_IS_TOP_LEVEL;BUILD_TESTING" OFF)
option(HORO_INSTALL "Let cmake --install install horo" ${PROJECT_IS_TOP_LEVEL})
if(DEFINED BUILD_SHARED_LIBS)
  set(_shared ${BUILD_SHARED_LIBS})
else()
  set(_shared ON)
endif()
option(HORO_SHARED "Install libhoro.so beside libhoro.a, and link horo::horo and the C interface with it" ${_shared})
if(HORO_SHARED AND HORO_INSTALL)
  set(HORO_INSTALLED_CORE horo_shared)
else()
  set(HORO_INSTALLED_CORE horo_static)
endif()
option(HORO_UNITY_TESTS "Compile several files of a test program as one: faster full builds, slower incremental builds" ${CMAKE_UNITY_BUILD})

# horo_require_parts(OPTION PARTS...): an error if OPTION is ON and one of the options PARTS is OFF.
function(horo_require_parts option)
  foreach(part ${ARGN})
    if(${option} AND NOT ${part})
      message(FATAL_ERROR "${option}=ON needs ${part}=ON: add -D${part}=ON, or -D${option}=OFF")
    endif()
  endforeach()
endfunction()
horo_require_parts(HORO_BUILD_TRAIN HORO_BUILD_OPS)
horo_require_parts(HORO_BUILD_EXAMPLES HORO_BUILD_OPS HORO_BUILD_TRAIN HORO_BUILD_C)
horo_require_parts(HORO_BUILD_TESTS HORO_WITH_MPI HORO_BUILD_OPS HORO_BUILD_TRAIN HORO_BUILD_C HORO_BUILD_LAUNCHER HORO_BUILD_EXAMPLES)

# The oldest compilers that are tested (docs/guides/installing.md). find_package(horo) checks them, too.
set(HORO_LEAST_GNU 12)
set(HORO_LEAST_CLANG 14)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS HORO_LEAST_GNU)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS HORO_LEAST_CLANG))
  message(FATAL_ERROR "the compiler is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, and horo needs GCC ${HORO_LEAST_GNU} or Clang "
                      "${HORO_LEAST_CLANG}; set CMAKE_CXX_COMPILER")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
include(GNUInstallDirs)

# Installed programs and libraries find horo's libraries relative to their own folder, so that the prefix may be moved. They
# find other libraries where the linker found them.
if(NOT DEFINED CMAKE_INSTALL_RPATH)
  file(RELATIVE_PATH _lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set(CMAKE_INSTALL_RPATH $ORIGIN $ORIGIN/${_lib_from_bin})
endif()
if(NOT DEFINED CMAKE_INSTALL_RPATH_USE_LINK_PATH)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

find_program(HORO_CCACHE ccache)
if(HORO_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HORO_CCACHE})
endif()
# ccache does not cache objects that use precompiled headers well, so they are off with a compiler launcher.
cmake_dependent_option(HORO_PRECOMPILE_HEADERS "Precompile the headers that nearly every file includes" ON
                       "PROJECT_IS_TOP_LEVEL;NOT CMAKE_CXX_COMPILER_LAUNCHER" OFF)
