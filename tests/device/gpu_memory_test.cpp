// The rules of CUDA about captures that memory of a GPU must follow. The linker replaces some
// functions of CUDA's runtime (CMakeLists.txt), so the test needs no GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "horo/device/gpu.h"

namespace {

cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
int forbidden_calls = 0, blocks = 0;

// Counts a call that invalidates captures unless the mode of the thread is relaxed.
void require_relaxed() {
  if (mode != cudaStreamCaptureModeRelaxed) ++forbidden_calls;
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  require_relaxed();
  ++blocks;
  *memory = std::malloc(bytes);
  return cudaSuccess;
}

cudaError_t free_block(void* memory) {
  require_relaxed();
  --blocks;
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t __wrap_cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t __wrap_cudaSetDevice(int) { return cudaSuccess; }
cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  return cudaSuccess;
}
cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes); }
cudaError_t __wrap_cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
cudaError_t __wrap_cudaFree(void* memory) { return free_block(memory); }
cudaError_t __wrap_cudaFreeHost(void* memory) { return free_block(memory); }
cudaError_t __wrap_cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
  std::swap(mode, *other);
  return cudaSuccess;
}

}  // extern "C"

namespace horo::device {
namespace {

TEST(GpuMemory, AllocatesAndFreesOutsideOfCaptures) {
  for (const auto thread_mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    mode = thread_mode;
    const auto gpu = open_gpu(0);
    {
      const Memory memory = gpu->allocate(100), pinned = gpu->allocate_pinned(100);
      EXPECT_EQ(blocks, 2);
      EXPECT_EQ(mode, thread_mode);
    }
    EXPECT_EQ(blocks, 0);
    EXPECT_EQ(forbidden_calls, 0);
    EXPECT_EQ(mode, thread_mode);
  }
}

}  // namespace
}  // namespace horo::device
