#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "collectives/adasum/adasum.h"
#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

double value_of(int rank, std::size_t i) {
  return std::sin(static_cast<double>(i) + 0.1 * rank) * std::pow(10.0, rank % 3 * 8 - 8);
}

TEST(OrderedSum, AddsInRankOrderAtAnySize) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::size_t count : {0, 1, 7, 513, 2049, 6007})
      contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
        const auto peers = transport.make_point_to_point();
        RingCollectives ring(*peers, 512);
        std::vector<double> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
        OrderedSumStaging staging;
        ordered_sum(ring, rank, ranks, values, staging);
        for (std::size_t i = 0; i < count; ++i) {
          double sum = value_of(0, i);
          for (int r = 1; r < ranks; ++r) sum += value_of(r, i);
          ASSERT_EQ(values[i], sum) << "element " << i << " of " << count;
        }
      });
}

}  // namespace
}  // namespace horo::collectives
