// Runs on the stand-in, and on GPUs with NCCL (device_ranks.h).
#include "collectives/device/chunk_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/collectives/device/device_ranks.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"
#include "tests/support/stream_gate.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_group;

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
  // Every value is the sum over the ranks, times `factor`.
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

TEST(ChunkPipeline, SumsAreExactWhateverTheTimingChunksAndBuffers) {
  std::uint64_t seed = 1;
  for (const int buffers : {1, 2, 3})
    for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{50000}, std::size_t{1} << 30})
      run_device_group(++seed, [&](DeviceRank& own) {
        train<float>(own, DataType::kFloat32, chunk_bytes, buffers);
      });
}

TEST(ChunkPipeline, NarrowWireTypesAndNarrowTensors) {
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

TEST(ChunkPipeline, OperationsAndAverages) {
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
    // Toward zero, as everywhere.
    EXPECT_EQ(reduced<std::int32_t>(own, {own.rank * 7, -own.rank * 7}, DataType::kInt32,
                                    ReduceOp::kAverage),
              (std::vector<std::int32_t>{7 * n * (n - 1) / 2 / n, -(7 * n * (n - 1) / 2 / n)}));
    // A sum of these would be infinite; a quarter and a seventh are exact.
    EXPECT_EQ(reduced<float>(own, {57344, -57344}, DataType::kFloat16, ReduceOp::kAverage),
              (std::vector<float>{57344, -57344}));
  });
}

TEST(ChunkPipeline, TheCallerWaitsForNobody) {
  run_device_group(0, [](DeviceRank& own) {
    Model<float> model(own.device);
    const FusedLayout layout(model.views(), DataType::kFloat32, 10000);
    ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
    device::StreamGate gate(own.device);
    const auto user = own.device.make_stream();
    const auto ready = own.device.make_event(), done = own.device.make_event();
    // What a first exchange sets up may wait for the device.
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

}  // namespace
}  // namespace horo::collectives
