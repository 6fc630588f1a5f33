# Dependencies. scripts/install_deps.sh installs them from packages; the build downloads nothing.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
set(MPI_CXX_SKIP_MPICXX ON)  # the C bindings only
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(ZLIB REQUIRED)
find_package(oneDNN REQUIRED)
find_package(PNG)   # optional: images of data sets
find_package(JPEG)  # optional

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
    find_package(cuDNN QUIET)
    find_package(cuBLASLt QUIET)
    find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${HORO_PYTHON_NVIDIA}/cu13/include
              ${HORO_PYTHON_NVIDIA}/nvtx/include)
    mark_as_advanced(NVTX_INCLUDE_DIR)
  endif()
  if(CUDAToolkit_FOUND AND NCCL_FOUND AND cuDNN_FOUND AND cuBLASLt_FOUND AND NVTX_INCLUDE_DIR)
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
    message(FATAL_ERROR "HORO_WITH_CUDA=ON needs nvcc, NCCL, cuDNN, cuBLASLt and NVTX; found: CUDA toolkit "
                        "'${CUDAToolkit_VERSION}', NCCL '${NCCL_VERSION}', cuDNN '${cuDNN_VERSION}', "
                        "'${cuBLASLt_INCLUDE_DIR}', '${NVTX_INCLUDE_DIR}'. "
                        "Install them, or configure with -DHORO_WITH_CUDA=OFF.")
  endif()
endif()
