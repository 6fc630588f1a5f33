# Dependencies of the parts that are built. scripts/install_deps.sh installs them from packages; the build downloads nothing.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
add_library(horo_mpi INTERFACE)  # what the parts of the core link for MPI: nothing without it
if(HORO_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C bindings only
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "MPI was not found: install libopenmpi-dev, name its folder in MPI_HOME, or configure with "
                        "-DHORO_WITH_MPI=OFF for jobs without MPI")
  endif()
  target_link_libraries(horo_mpi INTERFACE MPI::MPI_CXX)
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
if(HORO_BUILD_TRAIN)
  find_package(nlohmann_json REQUIRED)
endif()
if(HORO_BUILD_OPS OR HORO_BUILD_LAUNCHER)
  find_package(ZLIB REQUIRED)
endif()
if(HORO_BUILD_OPS)
  find_package(OpenMP REQUIRED COMPONENTS CXX GLOBAL)
  find_package(oneDNN REQUIRED)
  find_package(PNG)   # optional: images of data sets
  find_package(JPEG)  # optional
endif()
if(HORO_BUILD_LAUNCHER OR HORO_BUILD_EXAMPLES)
  if(POLICY CMP0167)  # CMake 3.30 and later: Boost itself brings the files for find_package
    cmake_policy(SET CMP0167 NEW)
  endif()
  find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
endif()

set(HORO_CUDA_FOUND FALSE)
if(NOT HORO_WITH_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # find_package(CUDAToolkit) of CMake 3.25.1 requires this target, which CUDA 13 does not have.
    if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit QUIET)
    find_package(NCCL QUIET)
    if(HORO_BUILD_OPS)
      find_package(cuDNN QUIET)
      find_package(cuBLASLt QUIET)
    endif()
    find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${HORO_PYTHON_NVIDIA}/cu13/include
              ${HORO_PYTHON_NVIDIA}/nvtx/include)
    mark_as_advanced(NVTX_INCLUDE_DIR)
  endif()
  if(CUDAToolkit_FOUND AND NCCL_FOUND AND NVTX_INCLUDE_DIR AND (NOT HORO_BUILD_OPS OR (cuDNN_FOUND AND cuBLASLt_FOUND)))
    set(HORO_CUDA_FOUND TRUE)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures to compile for: 75 to 120")
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc accepts -std=c++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
  elseif(HORO_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HORO_WITH_CUDA=ON needs nvcc, NCCL and NVTX, and for horo::ops cuDNN and cuBLASLt; found: CUDA toolkit "
                        "'${CUDAToolkit_VERSION}', NCCL '${NCCL_VERSION}', cuDNN '${cuDNN_VERSION}', "
                        "'${cuBLASLt_INCLUDE_DIR}', '${NVTX_INCLUDE_DIR}'. "
                        "Install them, or configure with -DHORO_WITH_CUDA=OFF.")
  endif()
endif()

# libtorch is not compiled with sanitizers, which report false errors in it.
set(HORO_TORCH_FOUND FALSE)
if(HORO_WITH_TORCH STREQUAL "ON" OR (HORO_WITH_TORCH STREQUAL "AUTO" AND NOT HORO_SANITIZER))
  find_package(LibTorch QUIET)
  set(HORO_TORCH_FOUND ${LibTorch_FOUND})
  if(HORO_WITH_TORCH STREQUAL "ON" AND NOT LibTorch_FOUND)
    find_package(LibTorch REQUIRED)  # prints what is missing
  endif()
endif()
