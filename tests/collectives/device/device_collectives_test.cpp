// The contract of all implementations of DeviceCollectives. Runs on host devices, and on GPUs with
// NCCL (device_ranks.h).
#include "collectives/device/device_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/collectives/contract/exact_values.h"
#include "tests/collectives/device/device_ranks.h"
#include "tests/support/device_array.h"

namespace horo::collectives {
namespace {

using contract::contributions;
using contract::DeviceRank;
using contract::expected_values;
using contract::for_each_type;
using contract::run_device_groups;
using device::DeviceArray;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

template <typename T>
void expect_same(const std::vector<T>& values, const std::vector<T>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(contract::same_bits(values[i], expected[i]))
        << name_of(data_type_of<T>) << " index " << i << " of " << values.size();
}

// An average is exact for integers and for powers of two. For other numbers of ranks, its rounding
// is up to NCCL.
bool is_exact(DataType type, ReduceOp op, int size) {
  return op != ReduceOp::kAverage || !is_floating(type) || (size & (size - 1)) == 0;
}

// With unequal parts, rank r has r + `least` elements; else all ranks have the same number.
std::vector<std::size_t> parts(int size, std::size_t least, bool is_even) {
  std::vector<std::size_t> parts;
  for (int r = 0; r < size; ++r)
    parts.push_back(least + (is_even ? 0 : static_cast<std::size_t>(r)));
  return parts;
}

std::vector<std::size_t> times(std::vector<std::size_t> counts, std::size_t bytes) {
  for (std::size_t& count : counts) count *= bytes;
  return counts;
}

TEST(DeviceCollectivesTest, AllreduceIsExact) {
  run_device_groups(3, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    for (const ReduceOp op : kOps)
      for_each_type([&]<typename T>(T) {
        if (!contract::can_reduce(data_type_of<T>) || !is_tested(op) ||
            !is_exact(data_type_of<T>, op, own.size))
          return;
        for (const std::size_t count : {0, 1, 1003}) {
          const DeviceArray<T> x(own.device, *stream, contributions<T>(own.rank, count, op));
          own.collectives.allreduce(x.data(), data_type_of<T>, count, op, *stream);
          expect_same(x.values(*stream), expected_values<T>(own.size, count, op));
        }
      });
    EXPECT_FALSE(own.collectives.failure());
  });
}

TEST(DeviceCollectivesTest, AllreduceOfPartsMatchesSingleCalls) {
  run_device_groups(10, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    const auto inputs = contributions<float>(own.rank, 3000, ReduceOp::kSum);
    const DeviceArray<float> x(own.device, *stream, inputs);
    const std::vector<DeviceCollectives::Part> parts = {
        {x.data(), 1000}, {x.data() + 1500, 0}, {x.data() + 2000, 777}};
    own.collectives.allreduce_parts(parts, DataType::kFloat32, ReduceOp::kSum, *stream);
    own.collectives.allreduce_parts({}, DataType::kFloat32, ReduceOp::kSum, *stream);
    auto expected = inputs;
    const auto sums = expected_values<float>(own.size, 3000, ReduceOp::kSum);
    std::copy_n(sums.begin(), 1000, expected.begin());
    std::copy_n(sums.begin() + 2000, 777, expected.begin() + 2000);
    expect_same(x.values(*stream), expected);
    EXPECT_FALSE(own.collectives.failure());
  });
}

TEST(DeviceCollectivesTest, ReduceScatterHandlesUnevenParts) {
  run_device_groups(4, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    for (const bool is_even : {true, false})
      for_each_type([&]<typename T>(T) {
        if (!contract::can_reduce(data_type_of<T>)) return;
        const auto count_of = parts(own.size, 5, is_even);
        const auto mine = count_of.begin() + own.rank;
        const std::size_t total = std::accumulate(count_of.begin(), count_of.end(), 0ul);
        const auto before = std::accumulate(count_of.begin(), mine, std::ptrdiff_t{0});
        const auto inputs = contributions<T>(own.rank, total, ReduceOp::kSum);
        const DeviceArray<T> input(own.device, *stream, inputs), output(own.device, *mine);
        own.collectives.reduce_scatter(input.data(), data_type_of<T>, count_of, output.data(),
                                       ReduceOp::kSum, *stream);
        const auto all = expected_values<T>(own.size, total, ReduceOp::kSum);
        expect_same(output.values(*stream),
                    std::vector<T>(all.begin() + before,
                                   all.begin() + before + static_cast<std::ptrdiff_t>(*mine)));
        expect_same(input.values(*stream), inputs);
      });
  });
}

TEST(DeviceCollectivesTest, AllgatherConcatenatesPartsInRankOrder) {
  run_device_groups(5, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    for (const bool is_even : {true, false}) {
      const auto count_of = parts(own.size, 3, is_even);
      const auto value = [](int rank, std::size_t i) { return rank * 1000 + static_cast<int>(i); };
      std::vector<int> mine, all;
      for (int r = 0; r < own.size; ++r)
        for (std::size_t i = 0; i < count_of[static_cast<std::size_t>(r)]; ++i) {
          all.push_back(value(r, i));
          if (r == own.rank) mine.push_back(value(r, i));
        }
      const DeviceArray<int> input(own.device, *stream, mine), output(own.device, all.size());
      own.collectives.allgather(input.data(), times(count_of, sizeof(int)), output.data(), *stream);
      expect_same(output.values(*stream), all);
    }
  });
}

TEST(DeviceCollectivesTest, BroadcastFromEveryRoot) {
  run_device_groups(6, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    for (int root = 0; root < own.size; ++root) {
      const DeviceArray<int> x(own.device, *stream, contributions<int>(own.rank, 257, {}));
      own.collectives.broadcast(x.data(), 257 * sizeof(int), root, *stream);
      expect_same(x.values(*stream), contributions<int>(root, 257, {}));
    }
  });
}

TEST(DeviceCollectivesTest, AlltoallExchangesBlocksOfAnySize) {
  run_device_groups(7, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    // Rank a sends a + 2 * b elements to rank b. Rank 0 sends none to itself, unless it is the only
    // rank.
    const auto count = [&](int a, int b) {
      return static_cast<std::size_t>(a + 2 * b + (own.size == 1 ? 1 : 0));
    };
    const auto value = [](int a, int b, std::size_t i) {
      return a * 10000 + b * 100 + static_cast<int>(i);
    };
    std::vector<int> inputs, outputs;
    std::vector<std::size_t> to, from;
    for (int r = 0; r < own.size; ++r) {
      to.push_back(count(own.rank, r) * sizeof(int));
      from.push_back(count(r, own.rank) * sizeof(int));
      for (std::size_t i = 0; i < count(own.rank, r); ++i) inputs.push_back(value(own.rank, r, i));
      for (std::size_t i = 0; i < count(r, own.rank); ++i) outputs.push_back(value(r, own.rank, i));
    }
    const DeviceArray<int> input(own.device, *stream, inputs), output(own.device, outputs.size());
    own.collectives.alltoall(input.data(), to, output.data(), from, *stream);
    expect_same(output.values(*stream), outputs);
  });
}

TEST(DeviceCollectivesTest, FollowStreamOrder) {
  run_device_groups(8, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    const std::size_t n = static_cast<std::size_t>(own.size), count = 12 * n;
    const DeviceArray<float> x(own.device, *stream,
                               std::vector<float>(count, static_cast<float>(own.rank)));
    const DeviceArray<float> shard(own.device, 12);
    const auto even = parts(own.size, 12, true);
    own.collectives.allreduce(x.data(), DataType::kFloat32, count, ReduceOp::kSum, *stream);
    own.collectives.reduce_scatter(x.data(), DataType::kFloat32, even, shard.data(), ReduceOp::kSum,
                                   *stream);
    own.collectives.allgather(shard.data(), times(even, sizeof(float)), x.data(), *stream);
    own.collectives.broadcast(x.data(), count * sizeof(float), own.size - 1, *stream);
    const auto sum = static_cast<float>(n * (n - 1) / 2);
    expect_same(x.values(*stream), std::vector<float>(count, sum * static_cast<float>(n)));
  });
}

TEST(DeviceCollectivesTest, AreReproducible) {
  run_device_groups(9, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    std::vector<float> inputs(100003);  // their sums are rounded
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = 1.0f / static_cast<float>(i * 7 + static_cast<std::size_t>(own.rank) + 1);
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 3; ++run) {
      const DeviceArray<float> x(own.device, *stream, inputs);
      own.collectives.allreduce(x.data(), DataType::kFloat32, inputs.size(), ReduceOp::kSum,
                                *stream);
      runs.push_back(x.values(*stream));
    }
    expect_same(runs[1], runs[0]);
    expect_same(runs[2], runs[0]);
  });
}

}  // namespace
}  // namespace horo::collectives
