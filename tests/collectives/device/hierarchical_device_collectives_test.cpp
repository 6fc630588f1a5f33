#include "collectives/device/hierarchical_device_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "horo/base/error.h"
#include "tests/collectives/device/cut_peers.h"
#include "tests/collectives/device/device_nodes.h"
#include "tests/support/device_array.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using contract::DeviceRank;
using contract::run_device_nodes;
using device::DeviceArray;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// The stream may have failed as well.
void pass(device::Stream& stream) {
  try {
    stream.synchronize();
  } catch (const DeviceError&) {
  }
}

// Sums are rounded both inside and between nodes.
BFloat16 value_of(int rank, std::size_t i) {
  return BFloat16(1.0f / static_cast<float>(i * 7 + static_cast<std::size_t>(rank) + 1));
}

TEST(HierarchicalDeviceCollectives, SixteenBitSumsAreReproducible) {
  for (const char* nodes : {"aabb", "aab", "abab", "aaabbb"})
    run_device_nodes(nodes, 11, [](DeviceRank& own) {
      constexpr std::size_t kCount = 2501;
      const auto size = static_cast<std::size_t>(own.size);
      const std::vector<std::size_t> bytes_of(size, kCount * sizeof(BFloat16));
      std::vector<BFloat16> inputs;
      for (std::size_t i = 0; i < kCount; ++i) inputs.push_back(value_of(own.rank, i));
      std::vector<float> first;
      for (int run = 0; run < 3; ++run) {
        const auto stream = own.device.make_stream();
        const DeviceArray<BFloat16> x(own.device, *stream, inputs);
        const DeviceArray<BFloat16> all(own.device, kCount * size);
        own.collectives.allreduce(x.data(), DataType::kBFloat16, kCount, ReduceOp::kAverage,
                                  *stream);
        own.collectives.allgather(x.data(), bytes_of, all.data(), *stream);
        const auto values = all.values(*stream);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto value = static_cast<float>(values[i]);
          if (run == 0 && i < kCount) first.push_back(value);
          ASSERT_EQ(value, first[i % kCount]) << "index " << i << " run " << run;
        }
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        float sum = 0;
        for (int r = 0; r < own.size; ++r) sum += static_cast<float>(value_of(r, i));
        const float average = sum / static_cast<float>(own.size);
        ASSERT_NEAR(first[i], average, average / 64) << "index " << i;
      }
    });
}

TEST(HierarchicalDeviceCollectives, HandleSeveralSlotsAndRounds) {
  for (const char* nodes : {"aabb", "abbab"})
    run_device_nodes(nodes, 13, [](DeviceRank& own) {
      const auto size = static_cast<std::size_t>(own.size),
                 rank = static_cast<std::size_t>(own.rank);
      const auto stream = own.device.make_stream();
      std::vector<std::int32_t> inputs;
      for (std::size_t i = 0; i < size * 2501; ++i)
        inputs.push_back(static_cast<std::int32_t>(i * (rank + 1)));
      const DeviceArray<std::int32_t> input(own.device, *stream, inputs), sums(own.device, 2501),
          blocks(own.device, inputs.size());
      own.collectives.reduce_scatter(input.data(), DataType::kInt32,
                                     std::vector<std::size_t>(size, 2501), sums.data(),
                                     ReduceOp::kSum, *stream);
      const std::vector<std::size_t> bytes(size, 2501 * sizeof(std::int32_t));
      own.collectives.alltoall(input.data(), bytes, blocks.data(), bytes, *stream);
      const auto reduced = sums.values(*stream), exchanged = blocks.values(*stream);
      for (std::size_t i = 0; i < 2501; ++i) {
        const std::size_t at = rank * 2501 + i;
        ASSERT_EQ(reduced[i], static_cast<std::int32_t>(at * size * (size + 1) / 2)) << i;
        for (std::size_t r = 0; r < size; ++r)
          ASSERT_EQ(exchanged[r * 2501 + i], static_cast<std::int32_t>(at * (r + 1))) << i;
      }
    });
}

TEST(HierarchicalDeviceCollectives, OrderCallsOnSeveralStreams) {
  run_device_nodes("aabb", 12, [](DeviceRank& own) {
    std::vector<std::unique_ptr<device::Stream>> streams;
    std::vector<DeviceArray<std::int32_t>> arrays;
    for (int k = 0; k < 5; ++k) {
      streams.push_back(own.device.make_stream());
      arrays.emplace_back(own.device, *streams.back(),
                          std::vector<std::int32_t>(3001, k + own.rank));
      own.collectives.allreduce(arrays.back().data(), DataType::kInt32, 3001, ReduceOp::kMax,
                                *streams.back());
    }
    for (int k = 0; k < 5; ++k)
      for (const std::int32_t x :
           arrays[static_cast<std::size_t>(k)].values(*streams[static_cast<std::size_t>(k)]))
        ASSERT_EQ(x, k + own.size - 1);
  });
}

TEST(HierarchicalDeviceCollectives, MissingRankOfOtherNodeTimesOut) {
  for (const char* nodes : {"aabb", "aab", "abc"}) {
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<int> waited = 0;
    run_device_nodes(
        nodes, 0,
        [&](DeviceRank& own) {
          if (own.rank == own.size - 1) return;
          const auto stream = own.device.make_stream();
          const DeviceArray<float> x(own.device, *stream, std::vector<float>(5003, 1));
          own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum,
                                    *stream);
          pass(*stream);
          // The error is its own timeout, or that of another rank of its node that timed out first.
          const std::string why = own.collectives.failure().value_or("");
          EXPECT_THAT(why, AnyOf(HasSubstr("waited"), HasSubstr("on the same node failed")));
          if (why.find("waited") != std::string::npos) ++waited;
          EXPECT_ANY_THROW(own.collectives.broadcast(x.data(), 4, 0, *stream));
        },
        200ms);
    EXPECT_GE(waited, 1) << nodes;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  }
}

// Rank 0 has exchanged its own shard, and has received undefined values from rank 1.
TEST(HierarchicalDeviceCollectives, FailedExchangeReachesReaders) {
  run_device_nodes(
      "aabb", 0,
      [](DeviceRank& own) {
        const auto stream = own.device.make_stream();
        const DeviceArray<float> x(own.device, *stream, std::vector<float>(1003, 1));
        own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
        if (own.rank > 1) {
          pass(*stream);
          EXPECT_TRUE(own.collectives.failure());
          return;
        }
        stream->synchronize();  // the stream continues, as on a GPU
        const std::string why = own.collectives.failure().value_or("");
        EXPECT_THAT(why, HasSubstr("the link is cut"));
        if (own.rank == 0) {
          EXPECT_THAT(why, HasSubstr("rank 1 (host a) on the same node failed"));
        }
        EXPECT_THROW(own.collectives.broadcast(x.data(), 4, 0, *stream), CommunicationError);
      },
      300ms,
      [](std::unique_ptr<PointToPoint> peers, int rank) -> std::unique_ptr<PointToPoint> {
        if (rank != 1) return peers;
        return std::make_unique<CutPeers>(std::move(peers), 3);
      });
}

TEST(HierarchicalDeviceCollectives, AbortEndsWaitsOfBothLevels) {
  run_device_nodes("aabb", 0, [](DeviceRank& own) {
    if (own.rank == 3) return own.collectives.abort("no more");
    const auto stream = own.device.make_stream();
    const DeviceArray<float> x(own.device, *stream, std::vector<float>(5003, 1));
    try {
      own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
    } catch (const Error&) {
      // The event has already completed.
    }
    pass(*stream);
    EXPECT_THAT(own.collectives.failure().value_or(""), HasSubstr("no more"));
  });
}

TEST(HierarchicalDeviceCollectives, ReportsMissingResources) {
  run_device_nodes("ab", 0, [](DeviceRank& own) {
    float x = 1;
    const auto stream = own.device.make_stream();
    EXPECT_THROW(own.collectives.allreduce(&x, DataType::kFloat32, 1, ReduceOp::kAdasum, *stream),
                 InvalidArgument);
    device::HostDevice small({.memory_bytes = 5000});
    EXPECT_THROW(HierarchicalDeviceCollectives(small, contract::topology_of("ab", own.rank), {},
                                               {.slot_bytes = 2048}, {}),
                 DeviceError);
    EXPECT_EQ(small.allocated_bytes(), 0u);
  });
}

}  // namespace
}  // namespace horo::collectives
