// Allreduces of a DeviceExecutor on stand-ins for GPUs.
#include "horo/coordinator/device_executor.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "collectives/device/host_device_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/device/host/host_device.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/support/device_array.h"

namespace horo::coordinator {
namespace {

using collectives::Transport;
using device::DeviceArray;
using device::HostDevice;

constexpr std::size_t kBufferBytes = 16384, kChunkBytes = 8192;
constexpr std::size_t kLarge = kChunkBytes / sizeof(float);

template <typename T>
T value(int rank, std::size_t tensor, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 3 + tensor + i) % 8);
}

// A rank with a device, an executor, and tensors in device memory.
class Rank {
 public:
  Rank(Transport& transport, int rank, int ranks)
      : rank_(rank),
        ranks_(ranks),
        peers_(transport.make_point_to_point()),
        ring_(*peers_, 4096),
        device_({.max_delay = std::chrono::microseconds(50),
                 .seed = static_cast<std::uint64_t>(rank) + 1}),
        executor_({.device = device_,
                   .topology = {.rank = rank, .size = ranks},
                   .buffer_bytes = kBufferBytes,
                   .chunk_bytes = kChunkBytes,
                   .communicator = nullptr,
                   .collectives = std::make_unique<collectives::HostDeviceCollectives>(
                       ring_, rank, ranks,
                       [&transport](const std::string& why) { transport.abort(why.c_str()); }),
                   .pipeline = nullptr}),
        user_(device_.make_stream(device::Priority::kNormal)),
        ready_(device_.make_event()),
        begun_(device_.make_event()),
        done_(device_.make_event()) {}

  // Allreduces arrays of these sizes as one group, at `skip` elements from aligned memory. Checks
  // the results, which are exact. Returns the number of launches.
  template <typename T>
  std::size_t reduce(const std::vector<std::size_t>& sizes, ReduceOp op, std::size_t skip = 0,
                     ScaleFactors scale = {}) {
    std::deque<DeviceArray<T>> arrays;
    std::vector<Entry> entries(1);
    entries.front().request.scale = scale;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      std::vector<T> values(skip + sizes[t]);
      for (std::size_t i = 0; i < sizes[t]; ++i) values[skip + i] = value<T>(rank_, t, i);
      const auto& array = arrays.emplace_back(device_, *user_, values);
      entries.front().members.emplace_back(array.data() + skip, Shape{sizes[t]}, device_);
    }
    const std::size_t launches = launches_of(entries, op);
    const float factor = static_cast<float>(scale.before * scale.after) /
                         (op == ReduceOp::kAverage ? static_cast<float>(ranks_) : 1);
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const std::vector<T> values = arrays[t].values(*user_);
      for (std::size_t i = 0; i < sizes[t]; ++i) {
        float sum = 0;
        for (int r = 0; r < ranks_; ++r) sum += static_cast<float>(value<T>(r, t, i));
        EXPECT_FLOAT_EQ(static_cast<float>(values[skip + i]), sum * factor)
            << "tensor " << t << " index " << i;
      }
    }
    return launches;
  }

 private:
  std::size_t launches_of(const std::vector<Entry>& entries, ReduceOp op) {
    Response response;
    response.op = op;
    user_->record(*ready_);
    const std::size_t before = device_.launches();
    executor_.execute(response, entries, {ready_.get()}, *begun_, *done_);
    const std::size_t launches = device_.launches() - before;
    user_->wait(*done_);
    user_->synchronize();
    return launches;
  }

  const int rank_, ranks_;
  std::unique_ptr<collectives::PointToPoint> peers_;
  collectives::RingCollectives ring_;
  HostDevice device_;
  DeviceExecutor executor_;
  std::unique_ptr<device::Stream> user_;
  std::unique_ptr<device::Event> ready_, begun_, done_;
};

class DeviceExecutorRanks : public ::testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(Rank&)>& function) {
    collectives::contract::run_thread_ranks(GetParam(), {}, [&](Transport& transport, int rank) {
      Rank own(transport, rank, GetParam());
      function(own);
    });
  }
  bool is_alone() const { return GetParam() == 1; }
};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceExecutorRanks, ::testing::Values(1, 2, 3, 4));

TEST_P(DeviceExecutorRanks, SumOfALargeTensorLaunchesNothing) {
  run([](Rank& own) {
    for (const std::size_t count : {kLarge, kLarge + 1, 3 * kLarge + 17, 8 * kLarge - 1})
      EXPECT_EQ(own.reduce<float>({count}, ReduceOp::kSum), 0u) << count;
  });
}

TEST_P(DeviceExecutorRanks, OnlyTensorOfATypeLaunchesNothing) {
  run([](Rank& own) {
    for (const std::size_t count : {0, 1, 7, 1001})
      EXPECT_EQ(own.reduce<float>({count}, ReduceOp::kSum), 0u) << count;
    EXPECT_EQ(own.reduce<std::int32_t>({0, 129, 0}, ReduceOp::kSum), 0u);
  });
}

// Without scaling, a chunk of packed tensors takes two launches, and a large tensor none.
TEST_P(DeviceExecutorRanks, SmallTensorsBesideALargeOneArePacked) {
  run([this](Rank& own) {
    EXPECT_EQ(own.reduce<float>({5, kLarge + 3, 300, 0, 1}, ReduceOp::kSum), is_alone() ? 0u : 2u);
    EXPECT_EQ(own.reduce<float>({kLarge - 1, kLarge - 1, kLarge - 1}, ReduceOp::kSum),
              is_alone() ? 0u : 6u);
  });
}

TEST_P(DeviceExecutorRanks, LargeTensorsAreScaledInPlace) {
  run([this](Rank& own) {
    // A chunk of a tensor in place is one tile, and an average scales each chunk once.
    const std::size_t count = 2 * collectives::TileTable::kTileElements + 5;
    EXPECT_EQ(own.reduce<float>({count}, ReduceOp::kAverage), is_alone() ? 0u : 3u);
    const ScaleFactors scale{.before = 0.5, .after = 4};
    EXPECT_EQ(own.reduce<float>({count, 7, 9}, ReduceOp::kSum, 0, scale), 6u + 2u);
    own.reduce<Float16>({count}, ReduceOp::kSum, 0, scale);
    own.reduce<std::int64_t>({count}, ReduceOp::kSum);
  });
}

TEST_P(DeviceExecutorRanks, UnalignedTensorsAreExact) {
  run([](Rank& own) {
    for (const std::size_t skip : {1, 3}) {
      EXPECT_EQ(own.reduce<float>({kLarge + 5}, ReduceOp::kSum, skip), 0u);
      own.reduce<float>({kLarge + 5, 11, 2 * kLarge}, ReduceOp::kAverage, skip);
      own.reduce<BFloat16>({5 * kLarge + 1, 3, 64}, ReduceOp::kSum, skip,
                           {.before = 2, .after = 0.25});
    }
  });
}

// The allocator of the device gives the same addresses to tensors of other sizes and types.
TEST_P(DeviceExecutorRanks, ReusedMemoryIsReducedWithItsNewSize) {
  run([](Rank& own) {
    for (int round = 0; round < 3; ++round) {
      own.reduce<float>({100, 200}, ReduceOp::kSum);
      own.reduce<float>({99, 200}, ReduceOp::kSum);
      own.reduce<std::int32_t>({100, 200}, ReduceOp::kSum);
      own.reduce<float>({kLarge, 50}, ReduceOp::kSum);
    }
  });
}

}  // namespace
}  // namespace horo::coordinator
