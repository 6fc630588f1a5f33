#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <random>

#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/pieced_array.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kSegmentBytes = 512;

struct Result {
  std::vector<float> values;
  WireReport report;
};

// Allreduces value(rank, i) on threads. Returns the result of each rank.
std::vector<Result> run(int ranks, std::size_t count, ReduceOp op, DataType wire,
                        const std::function<float(int, std::size_t)>& value) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives ring(*peers, kSegmentBytes, {}, {MessageAllreduce::kRing});
    Result& result = results[static_cast<std::size_t>(rank)];
    ring.set_wire_type(wire, result.report);
    contract::PiecedArray<float> array(count, contract::Cut::kOddPieces);
    for (std::size_t i = 0; i < count; ++i) array.set(i, value(rank, i));
    ring.allreduce(array.buffer(), op);
    EXPECT_TRUE(array.guards_are_intact());
    for (std::size_t i = 0; i < count; ++i) result.values.push_back(array.get(i));
  });
  return results;
}

class NarrowRing : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NarrowRing, testing::Values(1, 2, 3, 4, 7, 8));

TEST_P(NarrowRing, IsExactForRepresentableValues) {
  const int ranks = GetParam();
  const auto value = [](int rank, std::size_t i) {
    return static_cast<float>((rank + 1) * static_cast<int>(i % 5));
  };
  for (const DataType wire : {DataType::kFloat16, DataType::kBFloat16})
    for (const std::size_t count : {0ul, 1ul, 2ul, 17ul, 1023ul, 7001ul})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
        for (const Result& result : run(ranks, count, op, wire, value))
          for (std::size_t i = 0; i < count; ++i) {
            const float first = value(0, i);
            const float last = value(ranks - 1, i);
            const float sum = first * static_cast<float>(ranks * (ranks + 1) / 2);
            ASSERT_EQ(result.values[i], op == ReduceOp::kSum   ? sum
                                        : op == ReduceOp::kMax ? last
                                                               : first)
                << name_of(wire) << " " << name_of(op) << " index " << i << " of " << count;
          }
      }
}

TEST_P(NarrowRing, RoundsPerHopToSameBitsEverywhere) {
  const int ranks = GetParam();
  constexpr std::size_t kCount = 5003;
  const auto value = [](int rank, std::size_t i) {
    return std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(rank) * 7)) + 1.5f;
  };
  for (const DataType wire : {DataType::kFloat16, DataType::kBFloat16}) {
    const float unit =
        wire == DataType::kFloat16 ? 0x1p-11f : 0x1p-8f;  // the error of one rounding
    const auto results = run(ranks, kCount, ReduceOp::kAverage, wire, value);
    const auto again = run(ranks, kCount, ReduceOp::kAverage, wire, value);
    for (std::size_t r = 0; r < results.size(); ++r) {
      EXPECT_EQ(results[r].values, results[0].values) << "rank " << r;
      EXPECT_EQ(results[r].values, again[r].values) << "rank " << r;
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      double exact = 0;
      for (int r = 0; r < ranks; ++r) exact += double{value(r, i)} / ranks;
      ASSERT_NEAR(results[0].values[i], exact, exact * unit * (ranks + 0.5)) << i;
    }
  }
}

TEST_P(NarrowRing, ReportsSavingsAndCost) {
  const int ranks = GetParam();
  constexpr std::size_t kCount = 8 * 840;  // divisible by every number of ranks
  const auto results =
      run(ranks, kCount, ReduceOp::kSum, DataType::kBFloat16, [](int rank, std::size_t i) {
        return std::cos(static_cast<float>(i + 3)) + static_cast<float>(rank);
      });
  const std::size_t sent = 2 * static_cast<std::size_t>(ranks - 1) * kCount / ranks;
  for (const Result& result : results) {
    EXPECT_EQ(result.report.bytes_sent, 2 * sent);
    EXPECT_EQ(result.report.bytes_saved, 2 * sent);
    if (ranks == 1) {
      EXPECT_EQ(result.report.relative_error(), 0);
    } else {
      EXPECT_GT(result.report.relative_error(), 0x1p-12);
      EXPECT_LT(result.report.relative_error(), 0x1p-8);
    }
  }
}

TEST(NarrowRing, KeepsOtherTypes) {
  contract::run_thread_ranks(3, {}, [](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives ring(*peers, kSegmentBytes, {}, {MessageAllreduce::kRing});
    WireReport report;
    ring.set_wire_type(DataType::kBFloat16, report);
    std::vector<double> x(1001, 1.0 + 0x1p-40 * rank);
    ring.allreduce({DataType::kFloat64, x.data(), x.size()}, ReduceOp::kMax);
    for (const double y : x) ASSERT_EQ(y, 1.0 + 0x1p-39);
    EXPECT_EQ(report.bytes_sent, 0u);
  });
}

TEST(NarrowRing, CarriesInfinityAndNaN) {
  const auto results = run(2, 600, ReduceOp::kSum, DataType::kFloat16, [](int rank, std::size_t i) {
    if (i == 5 && rank == 1) return std::numeric_limits<float>::quiet_NaN();
    return i == 400 ? 60000.0f : 1.0f;  // twice this overflows float16
  });
  for (const Result& result : results) {
    EXPECT_TRUE(std::isnan(result.values[5]));
    EXPECT_TRUE(std::isinf(result.values[400]));
    EXPECT_EQ(result.values[6], 2.0f);
    EXPECT_TRUE(std::isfinite(result.report.relative_error()));
  }
}

TEST(NarrowRing, AverageAvoidsOverflowOfSum) {
  const auto value = [](int, std::size_t) { return 60000.0f; };
  for (const Result& result : run(4, 3001, ReduceOp::kAverage, DataType::kFloat16, value)) {
    for (const float y : result.values) ASSERT_EQ(y, 60000.0f);
    EXPECT_EQ(result.report.overflowed, 0u);
  }
  std::uint64_t overflowed = 0;
  for (const Result& result : run(4, 3001, ReduceOp::kSum, DataType::kFloat16, value)) {
    for (const float y : result.values) ASSERT_TRUE(std::isinf(y));
    overflowed += result.report.overflowed;
  }
  EXPECT_GT(overflowed, 0u);
}

}  // namespace
}  // namespace horo::collectives
