// The calls of CUDA that the device of a GPU makes. The linker replaces some functions of CUDA's
// runtime (CMakeLists.txt), so the test needs no GPU.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "horo/base/error.h"
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

// A call of cuStreamWaitValue32().
struct WaitCall {
  CUstream stream;
  CUdeviceptr address;
  std::uint32_t value;
  unsigned flags;
};
std::vector<WaitCall> wait_calls;
CUresult wait_result = CUDA_SUCCESS;
bool has_wait_value = false;
cudaStreamCaptureStatus capture_status = cudaStreamCaptureStatusNone;

CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  wait_calls.push_back({stream, address, value, flags});
  return wait_result;
}

}  // namespace

extern "C" {

cudaError_t __wrap_cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                    unsigned version, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status) {
  const bool is_found =
      has_wait_value && std::string(name) == "cuStreamWaitValue32" && version >= 11070;
  *function = is_found ? reinterpret_cast<void*>(&wait_value) : nullptr;
  *status = is_found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t __wrap_cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                            unsigned long long*, cudaGraph_t*,
                                            const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                            std::size_t*) {
  *status = capture_status;
  return cudaSuccess;
}

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

TEST(GpuSignal, StreamsWaitForWordInPinnedMemory) {
  const auto gpu = open_gpu(0);
  has_wait_value = false;
  try {
    gpu->make_signal();
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cuStreamWaitValue32"));
  }
  EXPECT_EQ(blocks, 0);

  has_wait_value = true;
  {
    const auto signal = gpu->make_signal();
    int native = 0;
    const auto stream = gpu->borrow_stream(&native);
    stream->wait(*signal, 7);
    ASSERT_EQ(wait_calls.size(), 1u);
    EXPECT_EQ(wait_calls[0].stream, reinterpret_cast<CUstream>(&native));
    EXPECT_EQ(wait_calls[0].value, 7u);
    EXPECT_EQ(wait_calls[0].flags, static_cast<unsigned>(CU_STREAM_WAIT_VALUE_GEQ));
    const auto* word = reinterpret_cast<const std::uint32_t*>(wait_calls[0].address);
    EXPECT_EQ(*word, 0u);
    signal->raise(8);
    EXPECT_EQ(*word, 8u);

    wait_result = CUDA_ERROR_NOT_SUPPORTED;
    EXPECT_THROW(stream->wait(*signal, 9), DeviceError);
    wait_result = CUDA_SUCCESS;
    capture_status = cudaStreamCaptureStatusInvalidated;
    EXPECT_ANY_THROW(stream->wait(*signal, 9));
    capture_status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(wait_calls.size(), 2u);
  }
  EXPECT_EQ(blocks, 0);
}

}  // namespace
}  // namespace horo::device
