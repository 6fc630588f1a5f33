# All build options.
include(CMakeDependentOption)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

set(HORO_WITH_CUDA AUTO CACHE STRING "Find the CUDA toolkit, NCCL and cuDNN: AUTO, ON (required) or OFF")
set_property(CACHE HORO_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(HORO_SANITIZER "" CACHE STRING "Sanitizer of the whole build: empty, address (with undefined) or thread")
set_property(CACHE HORO_SANITIZER PROPERTY STRINGS "" address thread)
option(HORO_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
option(HORO_BUILD_EXAMPLES "Build the example programs and benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(BUILD_TESTING "Build the tests" ON)
option(HORO_UNITY_TESTS "Compile several files of a test program as one: faster full builds, slower incremental builds" ${CMAKE_UNITY_BUILD})

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
include(GNUInstallDirs)

find_program(HORO_CCACHE ccache)
if(HORO_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HORO_CCACHE})
endif()
# ccache does not cache objects that use precompiled headers well, so they are off with a compiler launcher.
cmake_dependent_option(HORO_PRECOMPILE_HEADERS "Precompile the headers that nearly every file includes" ON
                       "PROJECT_IS_TOP_LEVEL;NOT CMAKE_CXX_COMPILER_LAUNCHER" OFF)
