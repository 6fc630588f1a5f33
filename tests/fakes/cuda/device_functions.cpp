// The functions of CUDA's runtime for devices, errors and memory.
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/last_error.h"
#include "tests/fakes/cuda/memory.h"
#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

thread_local cudaError_t last_error = cudaSuccess;  // NOLINT

constexpr int kMultiprocessors = 2;

int device_count() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && std::string_view(visible) == "-1" ? 0 : 1;
}

cudaError_t allocate(const char* call, MemoryKind kind, void** data, std::size_t bytes) {
  enter(call);
  require_no_capture(call);
  *data = bytes == 0 ? nullptr : Memory::of_process().allocate(bytes, kind, call);
  return bytes > 0 && *data == nullptr ? keep(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t release(const char* call, MemoryKind kind, void* data) {
  enter(call);
  require_no_capture(call);
  if (data == nullptr) return cudaSuccess;
  require_unused(call, data);
  Memory::of_process().free(data, kind, call);
  return cudaSuccess;
}

// Waits until the word at `address` has reached `value`, modulo 2^32.
void await_value(const std::uint32_t* address, std::uint32_t value) {
  while (static_cast<std::int32_t>(__atomic_load_n(address, __ATOMIC_ACQUIRE) - value) < 0)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, std::uint32_t value,
                            unsigned flags) {
  const char* const call = "cuStreamWaitValue32";
  enter(call);
  if (flags != CU_STREAM_WAIT_VALUE_GEQ)
    violation(call, "its stream", "the fake supports CU_STREAM_WAIT_VALUE_GEQ only");
  const auto* const word = reinterpret_cast<const std::uint32_t*>(address);
  if (Memory::of_process().kind_of(word) == nullptr)
    violation(call, "its stream", "the address is not in memory of CUDA");
  // Writes of the host to the word come in no order of the streams, so the access is not recorded.
  submit(call, stream, {call, {}, [word, value](const Actor&, Moment& moment) {
                          await_value(word, value);
                          moment.clock.join(host_clock());
                        }});
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t keep(cudaError_t error) { return last_error = error; }

}  // namespace horo::fakes

using namespace horo::fakes;  // NOLINT

extern "C" {

cudaError_t cudaGetLastError() {
  enter("cudaGetLastError");
  return std::exchange(last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    default:
      return "an error of the fake CUDA";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local char text[64];
  std::snprintf(text, sizeof text, "error %d of the fake CUDA", static_cast<int>(error));
  return text;
}

cudaError_t cudaProfilerStart() {
  enter("cudaProfilerStart");
  return cudaSuccess;
}

cudaError_t cudaProfilerStop() {
  enter("cudaProfilerStop");
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  enter("cudaGetDeviceCount");
  *count = device_count();
  return *count == 0 ? keep(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  enter("cudaSetDevice");
  return device == 0 ? cudaSuccess : keep(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int* device) {
  enter("cudaGetDevice");
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  enter("cudaGetDeviceProperties");
  *properties = {};
  std::strncpy(properties->name, "fake GPU", sizeof properties->name - 1);
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = Memory::kCapacity;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  enter("cudaDeviceGetAttribute");
  if (attribute != cudaDevAttrMultiProcessorCount) return keep(cudaErrorInvalidValue);
  *value = kMultiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  enter("cudaDeviceGetPCIBusId");
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  enter("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  enter("cudaMemGetInfo");
  *free = Memory::of_process().free_bytes();
  *total = Memory::kCapacity;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate("cudaMalloc", MemoryKind::kDevice, data, bytes);
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return allocate("cudaMallocHost", MemoryKind::kPinned, data, bytes);
}
cudaError_t cudaFree(void* data) { return release("cudaFree", MemoryKind::kDevice, data); }
cudaError_t cudaFreeHost(void* data) { return release("cudaFreeHost", MemoryKind::kPinned, data); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  enter("cudaPointerGetAttributes");
  *attributes = {};
  attributes->device = -2;
  attributes->type = cudaMemoryTypeUnregistered;
  if (const MemoryKind* const kind = Memory::of_process().kind_of(address)) {
    attributes->device = 0;
    attributes->type = *kind == MemoryKind::kPinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  enter("cudaFuncGetAttributes");
  *attributes = {};
  return cudaSuccess;
}

// Kernels that nvcc has compiled call this function. The kernels of the fake are compiled with
// tests/fakes/cuda/kernels.h.
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  violation("cudaLaunchKernel", "its stream", "the fake cannot run a kernel that nvcc compiled");
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  enter("cudaGetDriverEntryPointByVersion");
  const bool is_known = std::string_view(symbol) == "cuStreamWaitValue32";
  *function = is_known ? reinterpret_cast<void*>(&wait_value) : nullptr;
  if (status != nullptr)
    *status = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
