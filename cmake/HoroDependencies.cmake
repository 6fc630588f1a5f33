# What horo needs from the system. Everything comes from packages (scripts/install_deps.sh);
# nothing is downloaded.
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

set(HORO_CUDA_FOUND FALSE)
if(NOT HORO_WITH_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit QUIET)
    find_package(NCCL QUIET)
    find_package(cuDNN QUIET)
  endif()
  if(CUDAToolkit_FOUND AND NCCL_FOUND AND cuDNN_FOUND)
    set(HORO_CUDA_FOUND TRUE)
  elseif(HORO_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HORO_WITH_CUDA=ON needs nvcc, NCCL and cuDNN; found: CUDA toolkit "
                        "'${CUDAToolkit_VERSION}', NCCL '${NCCL_VERSION}', cuDNN '${cuDNN_VERSION}'. "
                        "Install them, or configure with -DHORO_WITH_CUDA=OFF.")
  endif()
endif()
