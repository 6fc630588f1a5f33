// GradientSync and named operations in a job of processes, on the device that open_device()
// returns.
#include "tests/api/device/device_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <utility>

#include "horo/device/host/host_device.h"
#include "tests/support/device_array.h"

namespace horo {
namespace {

constexpr std::size_t kSizes[] = {30011, 1, 8192, 100003, 0, 129};

template <typename T>
T value(int rank, int step, std::size_t t, std::size_t i) {
  return static_cast<T>(
      static_cast<float>((static_cast<std::size_t>(rank * 3 + step) + t + i) % 16));
}

/// The layout of gradients in memory: with gaps, or contiguous in ascending or descending order.
enum class Places { kApart, kRising, kFalling };

/// Gradients of one type in a device's memory.
template <typename T>
struct DeviceGradients {
  DeviceGradients(device::Device& device, Places places)
      : memory(device,
               std::accumulate(std::begin(kSizes), std::end(kSizes), kGap * std::size(kSizes))) {
    std::size_t at = places == Places::kFalling ? memory.size() : 0;
    for (std::size_t t = 0; t < std::size(kSizes); ++t) {
      if (places == Places::kFalling) at -= kSizes[t];
      offsets.push_back(at);
      named.push_back(
          {"layer" + std::to_string(t), TensorView(memory.data() + at, Shape{kSizes[t]}, device)});
      if (places != Places::kFalling) at += kSizes[t] + (places == Places::kApart ? kGap : 0);
    }
  }
  T* host(std::size_t t) const { return memory.host().data() + offsets[t]; }
  void upload(device::Stream& stream, std::size_t t) const {
    stream.copy(memory.data() + offsets[t], host(t), kSizes[t] * sizeof(T));
  }

  static constexpr std::size_t kGap = 12;  // aligns gradients in descending order too
  device::DeviceArray<T> memory;
  std::vector<std::size_t> offsets;
  std::vector<NamedTensor> named;
};

using device::DeviceArray;

enum class Step { kWaitsOnHost, kWaitsOnStream, kInGraph };

// The sums of the last step, of all gradients.
template <typename T>
std::vector<T> train(Context& ctx, device::Device& device, Step kind,
                     const GradientSyncOptions& options, Places places = Places::kApart) {
  constexpr int kSteps = 4;
  const auto stream = device.make_stream(device::Priority::kNormal);
  DeviceGradients<T> gradients(device, places);
  GradientSync sync(ctx, gradients.named, options);
  const auto backward = [&](int step) {
    for (std::size_t k = std::size(kSizes); k-- > 0;) {
      // The order differs between ranks, and between steps without a graph.
      const std::size_t t = (k + static_cast<std::size_t>(ctx.rank() + step)) % std::size(kSizes);
      gradients.upload(*stream, t);
      sync.ready(t, stream->native());
    }
    kind == Step::kWaitsOnHost ? (void)sync.wait() : sync.wait_on(stream->native());
  };
  std::optional<StepGraph> graph;
  std::vector<T> all;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t t = std::size(kSizes); t-- > 0;)
      for (std::size_t i = 0; i < kSizes[t]; ++i)
        gradients.host(t)[i] = value<T>(ctx.rank(), step, t, i);
    // The hierarchical exchange cannot be captured.
    if (kind == Step::kInGraph && step == 1 && ctx.local_size() == ctx.size())
      graph.emplace(sync.capture(stream->native(), [&] { backward(step); }));
    graph ? graph->launch() : backward(step);
    all.clear();
    gradients.memory.download(*stream);
    stream->synchronize();
    for (std::size_t t = 0; t < std::size(kSizes); ++t)
      all.insert(all.end(), gradients.host(t), gradients.host(t) + kSizes[t]);
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
  for (const Step kind : {Step::kWaitsOnHost, Step::kWaitsOnStream, Step::kInGraph}) {
    train<float>(ctx, *device, kind, {.op = ReduceOp::kSum, .bucket_bytes = 200000});
    train<double>(ctx, *device, kind, {.op = ReduceOp::kSum});
    train<BFloat16>(ctx, *device, kind, {.op = ReduceOp::kSum});
    train<std::int32_t>(ctx, *device, kind, {.op = ReduceOp::kSum});
    train<float>(ctx, *device, kind, {.op = ReduceOp::kSum, .wire = DataType::kBFloat16});
  }
}

TEST(DeviceJob, SendsMessages) {
  Context ctx = init();
  const auto device = open_device(ctx);
  const auto stream = device->make_stream();
  const int n = ctx.size(), from = (ctx.rank() + n - 1) % n;
  for (const std::size_t count : {100, 30011}) {
    const DeviceArray<float> out(*device, count), in(*device, count);
    for (std::size_t i = 0; i < count; ++i) out.host()[i] = value<float>(ctx.rank(), 0, 0, i);
    out.upload(*stream);
    const Handle sent = ctx.send_async(
        out.view(), {.name = "x", .to = (ctx.rank() + 1) % n, .stream = stream->native()});
    ctx.recv(in.view(), {.name = "x", .from = from, .stream = stream->native()});
    const std::vector<float> values = in.values(*stream);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(values[i], value<float>(from, 0, 0, i)) << "index " << i;
    sent.wait();
  }
}

TEST(DeviceJob, ManyChunksAreReproducible) {
  Context ctx = init();
  const auto device = open_device(ctx);
  const GradientSyncOptions options{.op = ReduceOp::kSum, .chunk_bytes = 65536};
  const std::vector<float> first = train<float>(ctx, *device, Step::kWaitsOnStream, options);
  for (const Step kind : {Step::kWaitsOnStream, Step::kInGraph})
    EXPECT_EQ(train<float>(ctx, *device, kind, options), first);
}

// The kernels submitted to the stand-in, and its memory apart from the gradients. A GPU does not
// report them.
struct Seen {
  std::size_t kernels, bytes;
};
template <typename T>
std::optional<Seen> seen_of_plan(Context& ctx, device::Device& device,
                                 const GradientSyncOptions& options, Places places) {
  if (!device::is_host(device)) {
    train<T>(ctx, device, Step::kWaitsOnStream, options, places);
    return std::nullopt;
  }
  const auto& host = static_cast<const device::HostDevice&>(device);
  const std::size_t kernels = host.launches();
  train<T>(ctx, device, Step::kWaitsOnStream, options, places);
  const DeviceGradients<T> gradients(device, places);
  const std::size_t bytes = host.allocated_bytes();
  const GradientSync sync(ctx, gradients.named, options);
  return Seen{host.launches() - kernels, host.allocated_bytes() - bytes};
}

TEST(DeviceJob, SumsAdjacentGradientsInPlace) {
  Context ctx = init();
  const auto device = open_device(ctx);
  const bool is_alone = ctx.size() == 1;
  for (const Places places : {Places::kRising, Places::kFalling})
    if (const auto seen = seen_of_plan<float>(ctx, *device, {.op = ReduceOp::kSum}, places)) {
      EXPECT_EQ(seen->kernels, 0u);
      // The hierarchical exchange allocates slots.
      if (ctx.local_size() == ctx.size()) {
        EXPECT_EQ(seen->bytes, 0u);
      }
    }
  // On rank 0 the gradients are not adjacent. Large gradients are reduced in place anyway.
  const Places uneven = ctx.rank() == 0 ? Places::kApart : Places::kRising;
  for (const std::size_t in_place_bytes : {std::size_t{400000}, SIZE_MAX}) {
    const GradientSyncOptions options{.op = ReduceOp::kSum, .in_place_bytes = in_place_bytes};
    if (const auto seen = seen_of_plan<float>(ctx, *device, options, uneven)) {
      EXPECT_EQ(seen->kernels > 0, !is_alone);
      EXPECT_EQ(seen->bytes > 0, !is_alone);
    }
  }
  seen_of_plan<BFloat16>(ctx, *device, {.op = ReduceOp::kSum, .in_place_bytes = 20000}, uneven);
  // Gradients that are converted are packed.
  const GradientSyncOptions narrow{.op = ReduceOp::kSum, .wire = DataType::kBFloat16};
  if (const auto seen = seen_of_plan<float>(ctx, *device, narrow, Places::kRising)) {
    EXPECT_EQ(seen->kernels > 0, !is_alone);
  }
}

struct Left {
  std::vector<float> values;  // of all gradients of the last step, read at their reported location
  std::size_t kernels = 0;    // submitted to the stand-in
  bool is_own_untouched = true;  // the gradients' memory has this rank's own
};

template <typename T>
Left averages(Context& ctx, device::Device& device, Step kind, const GradientSyncOptions& options,
              Places places) {
  const auto stream = device.make_stream(device::Priority::kNormal);
  const auto kernels = [&] {
    return device::is_host(device) ? static_cast<device::HostDevice&>(device).launches() : 0;
  };
  DeviceGradients<T> gradients(device, places);
  GradientSync sync(ctx, gradients.named, options);
  const auto take_step = [&] {
    for (std::size_t t = std::size(kSizes); t-- > 0;) {
      gradients.upload(*stream, t);
      sync.ready(t, stream->native());
    }
    sync.wait_on(stream->native());
  };
  std::optional<StepGraph> graph;
  Left left;
  const std::size_t before = kernels();
  for (int step = 0; step < 3; ++step) {
    stream->synchronize();
    for (std::size_t t = 0; t < std::size(kSizes); ++t)
      for (std::size_t i = 0; i < kSizes[t]; ++i)
        gradients.host(t)[i] = value<T>(ctx.rank(), step, t, i);
    if (kind == Step::kInGraph && step == 1 && ctx.local_size() == ctx.size())
      graph.emplace(sync.capture(stream->native(), take_step));
    graph ? graph->launch() : take_step();
  }
  stream->synchronize();
  left.kernels = kernels() - before;
  for (std::size_t t = 0; t < std::size(kSizes); ++t) {
    const ReducedGradient where = sync.reduced(t);
    const auto read = [&]<typename W>(W) {
      const DeviceArray<W> copy(device, kSizes[t]);
      if (kSizes[t] > 0) stream->copy(copy.data(), where.data, kSizes[t] * sizeof(W));
      for (const W x : copy.values(*stream))
        left.values.push_back(static_cast<float>(x) * static_cast<float>(where.scale));
    };
    where.type == DataType::kFloat32    ? read(0.0f)
    : where.type == DataType::kBFloat16 ? read(BFloat16{})
                                        : read(Float16{});
  }
  gradients.memory.download(*stream);
  stream->synchronize();
  for (std::size_t t = 0; t < std::size(kSizes); ++t)
    for (std::size_t i = 0; i < kSizes[t]; ++i)
      left.is_own_untouched &= static_cast<float>(gradients.host(t)[i]) ==
                               static_cast<float>(value<T>(ctx.rank(), 2, t, i));
  return left;
}

// Steps with and without the last pass. Without it, the values are rounded once more.
template <typename T>
std::pair<Left, Left> expect_same_values(Context& ctx, device::Device& device, Step kind,
                                         GradientSyncOptions options, Places places) {
  const Left whole = averages<T>(ctx, device, kind, options, places);
  options.leave_as_reduced = true;
  const Left left = averages<T>(ctx, device, kind, options, places);
  EXPECT_EQ(left.values.size(), whole.values.size());
  for (std::size_t i = 0; i < left.values.size(); ++i) {
    EXPECT_EQ(static_cast<float>(static_cast<T>(left.values[i])), whole.values[i]) << "index " << i;
    if (::testing::Test::HasFailure()) break;
  }
  return {whole, left};
}

TEST(DeviceJob, LeavesGradientsInReducedBuffer) {
  Context ctx = init();
  const auto device = open_device(ctx);
  for (const auto& [kind, wire] : {std::pair(Step::kWaitsOnStream, DataType::kBFloat16),
                                   {Step::kInGraph, DataType::kFloat16}}) {
    const auto [whole, left] = expect_same_values<float>(
        ctx, *device, kind,
        {.bucket_bytes = 200000, .wire = wire, .chunk_bytes = 50000, .in_place_bytes = {}},
        Places::kApart);
    EXPECT_TRUE(left.is_own_untouched);
    EXPECT_EQ(whole.kernels, 2 * left.kernels);
    EXPECT_EQ(left.kernels > 0, ctx.size() > 1 && device::is_host(*device));
  }
  expect_same_values<float>(ctx, *device, Step::kWaitsOnStream, {.in_place_bytes = 100000},
                            Places::kApart);
  EXPECT_EQ(expect_same_values<BFloat16>(ctx, *device, Step::kInGraph, {}, Places::kFalling)
                .second.kernels,
            0u);
}

TEST(DeviceJob, RunsNamedOperations) {
  Context ctx = init();
  const auto device = open_device(ctx);
  const auto stream = device->make_stream(device::Priority::kNormal);
  const auto n = static_cast<std::size_t>(ctx.size()), own = static_cast<std::size_t>(ctx.rank());
  for (int step = 0; step < 3; ++step) {
    const auto made = [&](std::size_t t, std::size_t count) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = value<float>(ctx.rank(), step, t, i);
      return DeviceArray<float>(*device, *stream, values);
    };
    const auto of = [&](std::size_t r, std::size_t t, std::size_t i) {
      return value<float>(static_cast<int>(r), step, t, i);
    };
    const auto big = made(0, 100003), small = made(1, 17), shared = made(2, 1001),
               part = made(3, 10 * (own + 1)), table = made(4, 7 * n);
    const DeviceArray<float> whole(*device, 5 * n * (n + 1)), swapped(*device, 7 * n),
        shard(*device, ctx.shard_rows(1001));
    const auto view = [](const DeviceArray<float>& array, std::size_t width = 1) {
      return array.view(Shape{array.size() / width, width});
    };
    void* const s = stream->native();
    std::vector<Handle> handles;
    handles.push_back(ctx.reduce_scatter_async(view(shared), view(shard),
                                               {.name = "s", .op = ReduceOp::kSum, .stream = s}));
    handles.back().wait_on(s);  // before its input is the next one's output
    const auto submit_small = [&] {
      handles.push_back(
          ctx.allreduce_async(view(small), {.name = "a", .op = ReduceOp::kMax, .stream = s}));
    };
    if (own % 2 == 0) submit_small();
    handles.push_back(ctx.allreduce_async(
        view(big), {.name = "b", .op = ReduceOp::kSum, .prescale = 0.5, .stream = s}));
    handles.push_back(
        ctx.broadcast_async(view(shared), {.name = "c", .root = ctx.size() - 1, .stream = s}));
    handles.push_back(
        ctx.allgather_async(view(part, 10), view(whole, 10), {.name = "g", .stream = s}));
    handles.push_back(
        ctx.alltoall_async(view(table, 7), view(swapped, 7), {.name = "t", .stream = s}));
    if (own % 2 == 1) submit_small();
    for (const Handle& handle : handles) handle.wait_on(s);

    const auto sum = [&](std::size_t t, std::size_t i) {
      float all = 0;
      for (std::size_t r = 0; r < n; ++r) all += of(r, t, i);
      return all;
    };
    const auto big_values = big.values(*stream);
    for (std::size_t i = 0; i < big.size(); ++i) ASSERT_EQ(big_values[i], 0.5f * sum(0, i));
    const auto small_values = small.values(*stream);
    for (std::size_t i = 0; i < small.size(); ++i) {
      float most = 0;
      for (std::size_t r = 0; r < n; ++r) most = std::max(most, of(r, 1, i));
      ASSERT_EQ(small_values[i], most);
    }
    const auto shared_values = shared.values(*stream);
    for (std::size_t i = 0; i < shared.size(); ++i) ASSERT_EQ(shared_values[i], of(n - 1, 2, i));
    std::size_t first = 0;
    for (std::size_t r = 0; r < own; ++r) first += 1001 / n + (r < 1001 % n ? 1 : 0);
    const auto shard_values = shard.values(*stream);
    for (std::size_t i = 0; i < shard.size(); ++i) ASSERT_EQ(shard_values[i], sum(2, first + i));
    const auto whole_values = whole.values(*stream);
    for (std::size_t r = 0, at = 0; r < n; ++r)
      for (std::size_t i = 0; i < 10 * (r + 1); ++i, ++at) ASSERT_EQ(whole_values[at], of(r, 3, i));
    const auto swapped_values = swapped.values(*stream);
    for (std::size_t i = 0; i < 7 * n; ++i)
      ASSERT_EQ(swapped_values[i], of(i / 7, 4, 7 * own + i % 7));
    for (const Handle& handle : handles) handle.wait();
  }
}

}  // namespace
}  // namespace horo
