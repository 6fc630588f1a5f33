// Each test breaks one rule of CUDA's runtime, in the way in which a program would, and expects
// that the fake ends the process at that call. The allowed variants come first in each test.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

#include "horo/device/gpu.h"
#include "tests/fakes/planted_kernels.h"

namespace horo::fakes {
namespace {

constexpr std::size_t kBytes = 1000;

struct FakeCudaTest : testing::Test {
  FakeCudaTest() {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    for (cudaStream_t* stream : {&first, &second})
      cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    for (void** block : {&a, &b}) cudaMalloc(block, kBytes);
  }
  ~FakeCudaTest() override {
    cudaStreamSynchronize(first);
    cudaStreamSynchronize(second);
    cudaFree(a);
    cudaFree(b);
    cudaEventDestroy(event);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
  }
  void begin_capture() { cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal); }
  void end_capture() {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
  }

  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  void *a = nullptr, *b = nullptr;
};
using FakeCudaDeathTest = FakeCudaTest;

TEST_F(FakeCudaDeathTest, HostFunctionMustNotCallCuda) {
  static bool has_run = false;
  cudaLaunchHostFunc(
      first, [](void*) { has_run = true; }, nullptr);
  cudaStreamSynchronize(first);
  EXPECT_TRUE(has_run);
  EXPECT_DEATH(
      {
        cudaLaunchHostFunc(
            first, [](void*) { (void)cudaGetLastError(); }, nullptr);
        cudaStreamSynchronize(first);
      },
      "cudaGetLastError on the thread of a host function");
}

TEST_F(FakeCudaDeathTest, CapturesForbidFreeingAndAllocating) {
  void* block = nullptr;
  cudaMalloc(&block, kBytes);
  begin_capture();
  std::thread([&] {  // other threads may call cudaFree() during a thread-local capture
    cudaFree(block);
    cudaMalloc(&block, kBytes);
  })
      .join();
  EXPECT_DEATH(
      {
        begin_capture();
        cudaFree(block);
      },
      "cudaFree on stream .*illegal while the stream is captured");
  EXPECT_DEATH(
      {
        begin_capture();
        cudaMalloc(&block, kBytes);
      },
      "cudaMalloc on stream .*illegal");
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaFree(block);
  cudaThreadExchangeStreamCaptureMode(&mode);
  end_capture();
}

TEST_F(FakeCudaTest, CapturesReportIllegalWaits) {
  begin_capture();
  EXPECT_NE(cudaStreamSynchronize(first), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(FakeCudaDeathTest, MemoryMustNotBeUsedAfterItWasFreed) {
  void* freed = nullptr;
  cudaMalloc(&freed, kBytes);
  EXPECT_EQ(cudaMemsetAsync(freed, 0, kBytes, first), cudaSuccess);
  cudaStreamSynchronize(first);
  cudaFree(freed);
  EXPECT_DEATH(cudaMemsetAsync(freed, 0, 4, first),
               "cudaMemsetAsync on stream .*freed by cudaFree");
  EXPECT_DEATH(cudaFree(freed), "freed twice");
}

TEST_F(FakeCudaDeathTest, KernelsMustNotReadFreedMemory) {
  EXPECT_DEATH(
      {
        const auto device = device::open_gpu(0);
        const auto stream = device->make_stream();
        const device::Memory to = device->allocate(kBytes);
        device::Memory from = device->allocate(kBytes);
        stream->fill(to.data(), 0, kBytes);
        stream->fill(from.data(), 0, kBytes);
        stream->synchronize();
        auto* const stale = reinterpret_cast<float*>(from.data());
        from = {};
        launch_add(*stream, reinterpret_cast<float*>(to.data()), stale, 10);
        stream->synchronize();
      },
      "kernel Add on stream .*4 bytes at .* are used after they were freed");
}

TEST_F(FakeCudaDeathTest, KernelsMustStayInsideOfBlocks) {
  EXPECT_DEATH(
      {
        const auto device = device::open_gpu(0);
        const auto stream = device->make_stream();
        const device::Memory x = device->allocate(40);
        stream->fill(x.data(), 0, 40);
        auto* const values = reinterpret_cast<float*>(x.data());
        launch_add(*stream, values, values, 11);
        stream->synchronize();
      },
      "kernel Add on stream .*outside of a block of 40 bytes");
}

TEST_F(FakeCudaDeathTest, MemoryMustNotBeFreedBeforeItsWork) {
  EXPECT_DEATH(
      {
        cudaLaunchHostFunc(
            first, [](void*) { std::this_thread::sleep_for(std::chrono::seconds(5)); }, nullptr);
        cudaMemsetAsync(a, 0, kBytes, first);
        cudaFree(a);
      },
      "cudaFree on stream .*used by an unfinished cudaMemsetAsync");
}

TEST_F(FakeCudaDeathTest, CopiesMustStayInsideOfBlocks) {
  EXPECT_DEATH(cudaMemsetAsync(a, 0, kBytes + 1, first), "outside of a block of 1000 bytes");
  EXPECT_DEATH(cudaMemcpyAsync(a, static_cast<std::byte*>(a) + 10, 100, cudaMemcpyDefault, first),
               "the ranges overlap");
}

TEST_F(FakeCudaDeathTest, StreamsNeedOrderForTheSameMemory) {
  cudaMemsetAsync(a, 1, kBytes, first);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event, 0);
  cudaMemcpyAsync(b, a, kBytes, cudaMemcpyDefault, second);  // ordered by the event
  cudaStreamSynchronize(second);
  cudaMemsetAsync(b, 1, kBytes, first);  // ordered by the host
  cudaStreamSynchronize(first);
  EXPECT_DEATH(
      {
        cudaMemsetAsync(a, 1, kBytes, first);
        cudaMemcpyAsync(b, a, 10, cudaMemcpyDefault, second);
        cudaStreamSynchronize(first);
        cudaStreamSynchronize(second);
      },
      "on stream .*without an order between them");
}

TEST_F(FakeCudaDeathTest, KernelsNeedOrderForTheSameMemory) {
  EXPECT_DEATH(
      {
        const auto device = device::open_gpu(0);
        const auto one = device->make_stream();
        const auto other = device->make_stream();
        const device::Memory x = device->allocate(kBytes);
        auto* const values = reinterpret_cast<float*>(x.data());
        one->fill(values, 0, kBytes);
        one->synchronize();
        launch_add(*one, values, values, 10);
        launch_add(*other, values + 9, values + 9, 10);
        one->synchronize();
        other->synchronize();
      },
      "kernel Add on stream .*kernel Add on stream .*without an order between them, at byte 36");
}

TEST_F(FakeCudaDeathTest, HandlesMustExist) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  cudaStreamDestroy(stream);
  EXPECT_DEATH(cudaEventRecord(event, stream), "the stream does not exist");
  EXPECT_DEATH(cudaStreamDestroy(stream), "the stream does not exist");
}

TEST_F(FakeCudaDeathTest, FreeingMustUseTheRightFunction) {
  void* pinned = nullptr;
  cudaMallocHost(&pinned, kBytes);
  EXPECT_DEATH(cudaFree(pinned), "the call frees device memory only");
  cudaFreeHost(pinned);
}

}  // namespace
}  // namespace horo::fakes
