#include "collectives/device/chunk_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <vector>

#include "horo/base/error.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_ranks;
using ::testing::HasSubstr;

constexpr std::size_t kSizes[] = {3, 8193, 0, 128, 20011, 1, 5000};

// Whole numbers small enough that sums are exact in bfloat16 too.
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
      memory_.push_back(device.allocate(size * sizeof(T)));
      views_.emplace_back(reinterpret_cast<T*>(memory_.back().data()), Shape{size});
    }
  }
  const std::vector<TensorView>& views() const { return views_; }
  T* data(std::size_t t) const { return static_cast<T*>(views_[t].data()); }
  void compute(int rank, int round) {
    for (std::size_t t = 0; t < views_.size(); ++t)
      for (std::size_t i = 0; i < views_[t].count(); ++i) data(t)[i] = value<T>(rank, round, t, i);
  }
  // Every value is the sum over the ranks, times `factor`.
  void expect_sums(int ranks, int round, float factor) const {
    for (std::size_t t = 0; t < views_.size(); ++t)
      for (std::size_t i = 0; i < views_[t].count(); ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += static_cast<float>(value<T>(r, round, t, i));
        ASSERT_EQ(static_cast<float>(data(t)[i]), static_cast<float>(static_cast<T>(sum * factor)))
            << "round " << round << " tensor " << t << " index " << i;
      }
  }

 private:
  std::vector<device::Memory> memory_;
  std::vector<TensorView> views_;
};

class ChunkPipelineRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ChunkPipelineRanks, testing::Values(1, 2, 4));

// Every round, a bucket is computed and taken up again on the user's stream, and the pipeline may
// have begun on the next ones meanwhile.
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
      device::submit(*user,
                     [&, round, b] { models[b].compute(own.rank, round + static_cast<int>(b)); });
      user->record(*ready[b]);
      const device::Event* event = ready[b].get();
      pipeline.allreduce(layouts[b], {.op = ReduceOp::kSum, .postscale = 2}, std::span(&event, 1),
                         *done[b]);
    }
    for (std::size_t b = 0; b < kBuckets; ++b) {
      user->wait(*done[b]);
      device::submit(*user, [&, round, b] {
        models[b].expect_sums(own.size, round + static_cast<int>(b), 2);
      });
    }
  }
  user->synchronize();
}

TEST_P(ChunkPipelineRanks, SumsAreExactWhateverTheTimingChunksAndBuffers) {
  std::uint64_t seed = 1;
  for (const int buffers : {1, 2, 3})
    for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{50000}, std::size_t{1} << 30})
      run_device_ranks(GetParam(), ++seed, [&](DeviceRank& own) {
        train<float>(own, DataType::kFloat32, chunk_bytes, buffers);
      });
}

TEST_P(ChunkPipelineRanks, NarrowWireTypesAndNarrowTensors) {
  run_device_ranks(GetParam(), 17, [](DeviceRank& own) {
    train<float>(own, DataType::kBFloat16, 20000, 2);
    train<float>(own, DataType::kFloat16, 20000, 2);
    train<BFloat16>(own, DataType::kBFloat16, 20000, 2);
    train<double>(own, DataType::kFloat64, 20000, 2);
  });
}

template <typename T>
std::vector<T> reduced(DeviceRank& own, std::vector<T> values, DataType wire, ReduceOp op) {
  const TensorView view(values);
  const FusedLayout layout(std::span(&view, 1), wire, 0);
  ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
  const auto done = own.device.make_event();
  pipeline.allreduce(layout, {.op = op}, {}, *done);
  done->synchronize();
  return values;
}

TEST_P(ChunkPipelineRanks, OperationsAndAverages) {
  const int n = GetParam();
  run_device_ranks(n, 5, [n](DeviceRank& own) {
    const auto r = static_cast<float>(own.rank);
    const float sum = static_cast<float>(n * (n - 1)) / 2;
    const auto f32 = DataType::kFloat32;
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kAverage),
              (std::vector<float>{sum / n, -sum / n}));
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kMax),
              (std::vector<float>{static_cast<float>(n - 1), 0}));
    EXPECT_EQ(reduced<float>(own, {r, -r}, f32, ReduceOp::kMin),
              (std::vector<float>{0, -static_cast<float>(n - 1)}));
    EXPECT_EQ(reduced<float>(own, {2, 0.5f}, f32, ReduceOp::kProduct),
              (std::vector<float>{std::ldexp(1.0f, n), std::ldexp(1.0f, -n)}));
    // Toward zero, as everywhere.
    EXPECT_EQ(reduced<std::int32_t>(own, {own.rank * 7, -own.rank * 7}, DataType::kInt32,
                                    ReduceOp::kAverage),
              (std::vector<std::int32_t>{7 * n * (n - 1) / 2 / n, -(7 * n * (n - 1) / 2 / n)}));
    // A sum of these would be infinite.
    EXPECT_EQ(reduced<float>(own, {60000, -60000}, DataType::kFloat16, ReduceOp::kAverage),
              (std::vector<float>{60000, -60000}));
  });
}

TEST(ChunkPipeline, TheCallerWaitsForNobody) {
  run_device_ranks(2, 0, [](DeviceRank& own) {
    Model<float> model(own.device);
    const FusedLayout layout(model.views(), DataType::kFloat32, 10000);
    ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
    const auto user = own.device.make_stream(device::Priority::kNormal);
    const auto ready = own.device.make_event(), done = own.device.make_event();
    std::promise<void> may_compute;
    device::submit(*user, [&, go = may_compute.get_future().share()] {
      go.wait();
      model.compute(own.rank, 1);
    });
    user->record(*ready);
    const device::Event* event = ready.get();
    pipeline.allreduce(layout, {.op = ReduceOp::kSum}, std::span(&event, 1), *done);
    EXPECT_FALSE(done->is_done());
    may_compute.set_value();
    done->synchronize();
    model.expect_sums(2, 1, 1);
  });
}

TEST(ChunkPipeline, ALostPeerFailsTheEventOnTheOthers) {
  run_device_ranks(
      3, 2,
      [](DeviceRank& own) {
        Model<float> model(own.device);
        const FusedLayout layout(model.views(), DataType::kFloat32, 10000);
        ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
        if (own.rank == 2) return;
        const auto done = own.device.make_event();
        model.compute(own.rank, 0);
        pipeline.allreduce(layout, {.op = ReduceOp::kSum}, {}, *done);
        EXPECT_THROW(done->synchronize(), DeviceError);
        EXPECT_TRUE(own.collectives.failure());
        EXPECT_THROW(pipeline.allreduce(layout, {.op = ReduceOp::kSum}, {}, *done), DeviceError);
      },
      std::chrono::milliseconds(200));
}

TEST(ChunkPipeline, SaysWhatDoesNotFit) {
  run_device_ranks(1, 0, [](DeviceRank& own) {
    Model<float> model(own.device);
    const FusedLayout layout(model.views(), DataType::kFloat32, 10000);
    ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes() - 1, {});
    const auto done = own.device.make_event();
    EXPECT_THROW(pipeline.allreduce(layout, {}, {}, *done), InvalidArgument);
  });
  device::HostDevice small({.memory_bytes = 1000});
  run_device_ranks(1, 0, [&](DeviceRank& own) {
    EXPECT_THROW(ChunkPipeline(small, own.collectives, 600, {}), DeviceError);
  });
  EXPECT_EQ(small.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace horo::collectives
