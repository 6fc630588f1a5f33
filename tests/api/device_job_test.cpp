// DeviceGradientSync in a job of processes, on whatever open_device() gives them.
#include "tests/api/device_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/device_array.h"

namespace horo {
namespace {

using device::DeviceArray;

constexpr std::size_t kSizes[] = {30011, 1, 8192, 100003, 0, 129};

template <typename T>
T value(int rank, int step, std::size_t t, std::size_t i) {
  return static_cast<T>(
      static_cast<float>((static_cast<std::size_t>(rank * 3 + step) + t + i) % 16));
}

/// Gradients of one type in a device's memory.
template <typename T>
struct DeviceGradients {
  explicit DeviceGradients(device::Device& device) {
    for (std::size_t t = 0; t < std::size(kSizes); ++t) {
      arrays.emplace_back(device, kSizes[t]);
      named.push_back(
          {"layer" + std::to_string(t), TensorView(arrays[t].data(), Shape{kSizes[t]})});
    }
  }
  std::vector<DeviceArray<T>> arrays;
  std::vector<NamedTensor> named;
};

// The sums of the last step, of all gradients.
template <typename T>
std::vector<T> train(Context& ctx, device::Device& device, bool on_host,
                     const DeviceGradientSyncOptions& options) {
  constexpr int kSteps = 4;
  const auto stream = device.make_stream(device::Priority::kNormal);
  DeviceGradients<T> gradients(device);
  DeviceGradientSync sync(ctx, device, gradients.named, options);
  std::vector<T> all;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t t = std::size(kSizes); t-- > 0;) {
      DeviceArray<T>& array = gradients.arrays[t];
      for (std::size_t i = 0; i < array.size(); ++i)
        array.host()[i] = value<T>(ctx.rank(), step, t, i);
      array.upload(*stream);
      sync.ready(t, stream->native());
    }
    on_host ? sync.wait() : sync.wait_on(stream->native());
    all.clear();
    for (std::size_t t = 0; t < std::size(kSizes); ++t)
      for (const T x : gradients.arrays[t].values(*stream)) all.push_back(x);
    std::size_t at = 0;
    for (std::size_t t = 0; t < std::size(kSizes); ++t)
      for (std::size_t i = 0; i < kSizes[t]; ++i, ++at) {
        float sum = 0;
        for (int r = 0; r < ctx.size(); ++r) sum += static_cast<float>(value<T>(r, step, t, i));
        EXPECT_EQ(static_cast<float>(all[at]), static_cast<float>(static_cast<T>(sum)))
            << "tensor " << t << " index " << i << " step " << step;
        if (::testing::Test::HasFailure()) return all;
      }
  }
  return all;
}

TEST(DeviceJob, SumsEveryType) {
  Context ctx = init();
  const auto device = open_device(ctx);
  for (const bool on_host : {false, true}) {
    train<float>(ctx, *device, on_host, {.op = ReduceOp::kSum, .bucket_bytes = 200000});
    train<double>(ctx, *device, on_host, {.op = ReduceOp::kSum});
    train<BFloat16>(ctx, *device, on_host, {.op = ReduceOp::kSum});
    train<std::int32_t>(ctx, *device, on_host, {.op = ReduceOp::kSum});
    train<float>(ctx, *device, on_host, {.op = ReduceOp::kSum, .wire = DataType::kBFloat16});
  }
}

TEST(DeviceJob, ManyChunksHaveTheSameBitsEveryRun) {
  Context ctx = init();
  const auto device = open_device(ctx);
  const DeviceGradientSyncOptions options{.op = ReduceOp::kSum, .chunk_bytes = 65536};
  const std::vector<float> first = train<float>(ctx, *device, false, options);
  for (int run = 0; run < 2; ++run) EXPECT_EQ(train<float>(ctx, *device, false, options), first);
}

}  // namespace
}  // namespace horo
