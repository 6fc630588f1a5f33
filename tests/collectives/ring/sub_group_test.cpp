#include "collectives/ring/sub_group.h"

#include <gtest/gtest.h>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

TEST(SubGroup, RunsCollectivesInGivenRankOrder) {
  contract::run_thread_ranks(5, {}, [](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    SubGroup odd_or_even(*peers, rank % 2 == 0 ? std::vector{4, 0, 2} : std::vector{3, 1}, 0);
    SubGroup all(*peers, {0, 1, 2, 3, 4}, kTagCount);
    RingCollectives part(odd_or_even, 1024);
    RingCollectives whole(all, 1024);
    for (int run = 0; run < 20; ++run) {
      double sum_of_part = rank, sum = rank, first = rank;
      part.allreduce(ScatteredBuffer(DataType::kFloat64, &sum_of_part, 1), ReduceOp::kSum);
      whole.allreduce(ScatteredBuffer(DataType::kFloat64, &sum, 1), ReduceOp::kSum);
      part.broadcast(ScatteredBuffer(DataType::kFloat64, &first, 1), 0);
      EXPECT_EQ(sum_of_part, rank % 2 == 0 ? 6 : 4);
      EXPECT_EQ(sum, 10);
      EXPECT_EQ(first, rank % 2 == 0 ? 4 : 3);
    }
  });
}

TEST(SubGroup, RejectsOtherRanks) {
  contract::run_thread_ranks(2, {}, [](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    if (rank == 0) {
      EXPECT_THROW(SubGroup(*peers, {1}, 0), InvalidArgument);
    }
  });
}

}  // namespace
}  // namespace horo::collectives
