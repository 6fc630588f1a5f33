// Runs on host devices, and on GPUs with NCCL (device_ranks.h).
#include "collectives/device/chunk_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/collectives/contract/exact_values.h"
#include "tests/collectives/device/device_ranks.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"
#include "tests/support/stream_gate.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_group;

constexpr std::size_t kSizes[] = {3, 8193, 0, 128, 20011, 1, 5000};

// Integers that are small enough for exact sums in bfloat16.
template <typename T>
T value(int rank, int round, std::size_t tensor, std::size_t i) {
  return static_cast<T>(
      static_cast<float>((static_cast<std::size_t>(rank * 3 + round) + tensor + i) % 16));
}

// A model in device memory.
template <typename T>
class Model {
 public:
  explicit Model(device::Device& device) {
    for (const std::size_t size : kSizes) {
      tensors_.emplace_back(device, size);
      views_.emplace_back(tensors_.back().data(), Shape{size});
    }
  }
  const std::vector<TensorView>& views() const { return views_; }
  void compute(device::Stream& stream, int rank, int round) {
    stream.run_on_host([this, rank, round] {
      for (std::size_t t = 0; t < tensors_.size(); ++t)
        for (std::size_t i = 0; i < tensors_[t].size(); ++i)
          tensors_[t].host()[i] = value<T>(rank, round, t, i);
    });
    for (const auto& tensor : tensors_) tensor.upload(stream);
  }
  // Checks that every value is the sum over the ranks, times `factor`.
  void expect_sums(device::Stream& stream, int ranks, int round, float factor) const {
    for (const auto& tensor : tensors_) tensor.download(stream);
    stream.run_on_host([=, this] { check_sums(ranks, round, factor); });
  }

 private:
  void check_sums(int ranks, int round, float factor) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      for (std::size_t i = 0; i < tensors_[t].size(); ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += static_cast<float>(value<T>(r, round, t, i));
        ASSERT_EQ(static_cast<float>(tensors_[t].host()[i]),
                  static_cast<float>(static_cast<T>(sum * factor)))
            << "round " << round << " tensor " << t << " index " << i;
      }
  }

  std::vector<device::DeviceArray<T>> tensors_;
  std::vector<TensorView> views_;
};

// In every round, a bucket is computed and read on the user's stream, while the pipeline may
// already reduce the next buckets.
template <typename T>
void train(DeviceRank& own, DataType wire, std::size_t chunk_bytes, int buffers) {
  constexpr int kBuckets = 3, kRounds = 4;
  std::vector<Model<T>> models;
  std::vector<FusedLayout> layouts;
  for (int b = 0; b < kBuckets; ++b) {
    models.emplace_back(own.device);
    layouts.emplace_back(models.back().views(), wire, chunk_bytes);
  }
  ChunkPipeline pipeline(own.device, own.collectives, layouts[0].buffer_bytes(),
                         {.buffers = buffers});
  const auto user = own.device.make_stream(device::Priority::kNormal);
  std::vector<std::unique_ptr<device::Event>> ready, done;
  for (int b = 0; b < kBuckets; ++b) {
    ready.push_back(own.device.make_event());
    done.push_back(own.device.make_event());
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t b = 0; b < kBuckets; ++b) {
      models[b].compute(*user, own.rank, round + static_cast<int>(b));
      user->record(*ready[b]);
      const device::Event* event = ready[b].get();
      pipeline.allreduce(layouts[b], {.op = ReduceOp::kSum, .postscale = 2}, std::span(&event, 1),
                         *done[b]);
    }
    for (std::size_t b = 0; b < kBuckets; ++b) {
      user->wait(*done[b]);
      models[b].expect_sums(*user, own.size, round + static_cast<int>(b), 2);
    }
  }
  user->synchronize();
}

TEST(ChunkPipeline, SumsAreExactWithAnyTiming) {
  std::uint64_t seed = 1;
  for (const int buffers : {1, 2, 3})
    for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{50000}, std::size_t{1} << 30})
      run_device_group(++seed, [&](DeviceRank& own) {
        train<float>(own, DataType::kFloat32, chunk_bytes, buffers);
      });
}

TEST(ChunkPipeline, HandlesNarrowWireTypesAndTensors) {
  run_device_group(17, [](DeviceRank& own) {
    train<float>(own, DataType::kBFloat16, 20000, 2);
    train<float>(own, DataType::kFloat16, 20000, 2);
    train<BFloat16>(own, DataType::kBFloat16, 20000, 2);
    train<double>(own, DataType::kFloat64, 20000, 2);
  });
}

template <typename T>
std::vector<T> reduced(DeviceRank& own, const std::vector<T>& values, DataType wire, ReduceOp op) {
  const auto user = own.device.make_stream();
  const device::DeviceArray<T> tensor(own.device, *user, values);
  const TensorView view(tensor.data(), Shape{values.size()});
  const FusedLayout layout(std::span(&view, 1), wire, 0);
  ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
  const auto ready = own.device.make_event(), done = own.device.make_event();
  user->record(*ready);
  const device::Event* event = ready.get();
  pipeline.allreduce(layout, {.op = op}, std::span(&event, 1), *done);
  user->wait(*done);
  return tensor.values(*user);
}

TEST(ChunkPipeline, HandlesOperationsAndAverages) {
  run_device_group(5, [](DeviceRank& own) {
    const int n = own.size;
    const auto r = static_cast<float>(own.rank);
    const float sum = static_cast<float>(n * (n - 1)) / 2;
    const auto f32 = DataType::kFloat32;
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kAverage),
              (std::vector<float>{sum * (1.0f / static_cast<float>(n)),
                                  -sum * (1.0f / static_cast<float>(n))}));
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kMax),
              (std::vector<float>{static_cast<float>(n - 1), 0}));
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kMin),
              (std::vector<float>{0, -static_cast<float>(n - 1)}));
    EXPECT_EQ(reduced<float>(own, {2, 0.5f}, f32, ReduceOp::kProduct),
              (std::vector<float>{std::ldexp(1.0f, n), std::ldexp(1.0f, -n)}));
    // Integer averages round toward zero, as in all implementations.
    EXPECT_EQ(reduced<std::int32_t>(own, {own.rank * 7, -own.rank * 7}, DataType::kInt32,
                                    ReduceOp::kAverage),
              (std::vector<std::int32_t>{7 * n * (n - 1) / 2 / n, -(7 * n * (n - 1) / 2 / n)}));
    // A sum of these would be infinite; a quarter and a seventh are exact.
    EXPECT_EQ(reduced<float>(own, {57344, -57344}, DataType::kFloat16, ReduceOp::kAverage),
              (std::vector<float>{57344, -57344}));
  });
}

TEST(ChunkPipeline, CallerDoesNotBlock) {
  run_device_group(0, [](DeviceRank& own) {
    Model<float> model(own.device);
    const FusedLayout layout(model.views(), DataType::kFloat32, 10000);
    ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
    device::StreamGate gate(own.device);
    const auto user = own.device.make_stream();
    const auto ready = own.device.make_event(), done = own.device.make_event();
    // The first exchange may wait for the device while it sets up resources.
    pipeline.allreduce(layout, {.op = ReduceOp::kSum}, {}, *done);
    done->synchronize();
    gate.hold(*user);
    model.compute(*user, own.rank, 1);
    user->record(*ready);
    const device::Event* event = ready.get();
    pipeline.allreduce(layout, {.op = ReduceOp::kSum}, std::span(&event, 1), *done);
    EXPECT_FALSE(done->is_done());
    gate.open();
    user->wait(*done);
    model.expect_sums(*user, own.size, 1, 1);
    user->synchronize();
  });
}

// The number of kernels launched on a host device. GPUs do not count them.
std::optional<std::size_t> launches(const device::Device& device) {
  if (!device::is_host(device)) return std::nullopt;
  return static_cast<const device::HostDevice&>(device).launches();
}

// Tensors of kSizes in one array, with `gap` elements between neighbours, as on all ranks.
struct Arena {
  std::size_t gap;
  std::optional<std::size_t> in_place_bytes;  // unset: packs everything
  std::size_t chunk_bytes = 30000;
};

struct Seen {
  std::size_t spans, chunks, launches;
};

// Returns the array, gaps included, with the reduced values.
template <typename T>
std::vector<T> reduced_arena(DeviceRank& own, const Arena& arena,
                             const ChunkPipeline::ReduceSpec& what, std::vector<T> values,
                             Seen* seen = nullptr) {
  const auto user = own.device.make_stream();
  const device::DeviceArray<T> memory(own.device, *user, values);
  std::vector<TensorView> views;
  T* at = memory.data();
  for (const std::size_t size : kSizes) {
    views.emplace_back(at, Shape{size});
    at += size + arena.gap;
  }
  std::vector<MemorySpan> spans;
  if (arena.in_place_bytes) spans = memory_spans(views, memory_facts(views), *arena.in_place_bytes);
  const FusedLayout layout(views, data_type_of<T>, arena.chunk_bytes, spans);
  ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
  const auto ready = own.device.make_event(), done = own.device.make_event();
  user->record(*ready);
  const device::Event* event = ready.get();
  const auto before = launches(own.device);
  pipeline.allreduce(layout, what, std::span(&event, 1), *done);
  if (seen != nullptr)
    *seen = {layout.in_place().size(), layout.chunks().size(),
             before ? *launches(own.device) - *before : 0};
  user->wait(*done);
  return memory.values(*user);
}

std::size_t elements(std::size_t gap) {
  return std::accumulate(std::begin(kSizes), std::end(kSizes), gap * std::size(kSizes));
}

template <typename T>
void expect_same(const std::vector<T>& values, const std::vector<T>& expected, const char* what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_TRUE(contract::same_bits(values[i], expected[i]))
        << name_of(data_type_of<T>) << ", " << what << ", index " << i;
}

TEST(ChunkPipeline, InPlaceMatchesPackedForEveryTypeAndOperation) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProduct};
  run_device_group(0, [&](DeviceRank& own) {
    contract::for_each_type([&]<typename T>(T) {
      for (const ReduceOp op : kOps) {
        if (!contract::can_reduce(data_type_of<T>) || !is_tested(op)) continue;
        const auto values = contract::contributions<T>(own.rank, elements(0), op);
        const auto packed = reduced_arena(own, Arena{0, {}}, {.op = op}, values);
        const auto in_place = reduced_arena(own, Arena{0, 0}, {.op = op}, values);
        expect_same(in_place, packed, name_of(op).data());
        // An average is rounded at another point.
        if (op != ReduceOp::kAverage || (own.size & (own.size - 1)) == 0)
          expect_same(in_place, contract::expected_values<T>(own.size, elements(0), op),
                      name_of(op).data());
      }
    });
  });
}

TEST(ChunkPipeline, InPlaceRoundsOnceAndKeepsFloat16Finite) {
  run_device_group(9, [](DeviceRank& own) {
    std::vector<float> thirds(elements(0));
    for (std::size_t i = 0; i < thirds.size(); ++i)
      thirds[i] = static_cast<float>(i + static_cast<std::size_t>(own.rank)) / 3;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      if (own.size > 2) continue;  // for more ranks the order of additions depends on the position
      const ChunkPipeline::ReduceSpec what{op, 0.3, 1.7};
      expect_same(reduced_arena(own, Arena{0, 0}, what, thirds),
                  reduced_arena(own, Arena{0, {}}, what, thirds), "scaled");
    }
    // A sum of these would be infinite; a quarter and a seventh are exact.
    const std::vector<Float16> large(elements(0), Float16(57344.0f));
    expect_same(reduced_arena(own, Arena{0, 0}, {}, large), large, "large");
  });
}

TEST(ChunkPipeline, InPlaceSumsLaunchNoKernel) {
  run_device_group(0, [](DeviceRank& own) {
    if (!launches(own.device)) return;
    const std::vector<float> values(elements(0), 1);
    Seen seen{};
    reduced_arena(own, Arena{0, 0}, {.op = ReduceOp::kSum}, values, &seen);
    EXPECT_GT(seen.spans, 2u);
    EXPECT_EQ(seen.chunks, 0u);
    EXPECT_EQ(seen.launches, 0u);
    reduced_arena(own, Arena{0, 0}, {.op = ReduceOp::kAverage}, values, &seen);
    EXPECT_EQ(seen.launches, own.size == 1 ? 0 : seen.spans);
    reduced_arena(own, Arena{0, {}}, {.op = ReduceOp::kSum}, values, &seen);
    EXPECT_EQ(seen.spans, 0u);
    EXPECT_EQ(seen.launches, 2 * seen.chunks);
  });
}

/// Records the calls of a pipeline of one rank: the number of elements of each allreduce, and for
/// allreduce_parts() those of all parts.
class RecordedCalls : public LoneCollectives {
 public:
  void allreduce(void*, DataType, std::size_t count, ReduceOp, device::Stream&) override {
    calls.push_back({count});
  }
  void allreduce_parts(std::span<const Part> parts, DataType, ReduceOp, device::Stream&) override {
    calls.emplace_back();
    for (const Part& part : parts) calls.back().push_back(part.count);
  }
  std::vector<std::vector<std::size_t>> calls;
};

TEST(ChunkPipeline, UnscaledSpansTakeOneCall) {
  const auto device = device::make_device();
  const device::DeviceArray<float> memory(*device, 50000);
  std::vector<TensorView> views;
  views.emplace_back(memory.data(), Shape{20000});
  views.emplace_back(memory.data() + 20004, Shape{20000});
  views.emplace_back(memory.data() + 40004, Shape{9000});
  const auto spans = memory_spans(views, memory_facts(views), 60000);
  const FusedLayout layout(views, DataType::kFloat32, 40000, spans);
  RecordedCalls collectives;
  ChunkPipeline pipeline(*device, collectives, layout.buffer_bytes(), {});
  const auto done = device->make_event();
  const auto calls_of = [&](const ChunkPipeline::ReduceSpec& spec) {
    collectives.calls.clear();
    pipeline.allreduce(layout, spec, {}, *done);
    done->synchronize();
    return collectives.calls;
  };
  using Calls = std::vector<std::vector<std::size_t>>;
  const Calls whole = {{20000, 29000}};
  EXPECT_EQ(calls_of({.op = ReduceOp::kSum}), whole);
  // The reader of the values scales.
  EXPECT_EQ(calls_of({.op = ReduceOp::kAverage, .postscale = 0.5, .leave_as_reduced = true}),
            whole);
  // With work before or after, chunks overlap it with the exchange.
  const Calls chunks = {{16384}, {3616}, {16384}, {12616}};
  EXPECT_EQ(calls_of({.op = ReduceOp::kSum, .postscale = 0.5}), chunks);
  EXPECT_EQ(calls_of({.op = ReduceOp::kSum, .prescale = 0.5}), chunks);
}

TEST(ChunkPipeline, HandlesSpansAndPackedTensorsWithGaps) {
  run_device_group(10, [](DeviceRank& own) {
    constexpr std::size_t kGap = 1, kLarge = 4;  // aligned, like its chunks
    constexpr auto kOp = ReduceOp::kMax;
    const auto values = contract::contributions<float>(own.rank, elements(kGap), kOp);
    Seen seen{};
    const auto result = reduced_arena(own, Arena{kGap, 40000}, {.op = kOp}, values, &seen);
    EXPECT_EQ(seen.spans, (kSizes[kLarge] + 8191) / 8192);
    EXPECT_GT(seen.chunks, 0u);
    auto expected = contract::expected_values<float>(own.size, elements(kGap), kOp);
    std::size_t end = 0;
    for (const std::size_t size : kSizes) {
      end += size;
      expected[end] = values[end];  // in a gap
      ++end;
    }
    expect_same(result, expected, "mixed");
  });
}

}  // namespace
}  // namespace horo::collectives
