#include "ops/parallel/staleness_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace horo::ops {
namespace {

TEST(StalenessClock, BoundsTheLeadOfTheFastest) {
  for (const std::uint64_t staleness : {0, 1, 4}) {
    StalenessClock clock(3, staleness);
    // Worker 0 alone makes steps until it has to wait.
    std::uint64_t steps = 0;
    for (; clock.may_start(0); ++steps) clock.complete(0);
    EXPECT_EQ(steps, staleness + 1);
    EXPECT_TRUE(clock.may_start(1));
    clock.complete(1);
    EXPECT_FALSE(clock.may_start(0));  // worker 2 is still the slowest
    clock.complete(2);
    EXPECT_TRUE(clock.may_start(0));
    EXPECT_EQ(clock.slowest(), 1u);
    EXPECT_EQ(clock.lead(0), staleness);
  }
}

TEST(StalenessClock, DoesNotWaitForFinishedWorkers) {
  StalenessClock clock(2, 1);
  clock.complete(0);
  clock.complete(0);
  EXPECT_FALSE(clock.may_start(0));
  clock.finish(1);
  EXPECT_TRUE(clock.may_start(0));
  EXPECT_EQ(clock.lead(1), 0u);
  EXPECT_FALSE(clock.have_all_finished());
  clock.finish(0);
  EXPECT_TRUE(clock.have_all_finished());
  EXPECT_EQ(clock.slowest(), 2u);
}

// In every order of steps, no worker starts a step more than `staleness` steps ahead, and some
// worker can always continue.
TEST(StalenessClock, HoldsTheBoundInEveryOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::size_t workers = 1 + random() % 5;
    const std::uint64_t staleness = random() % 4;
    StalenessClock clock(workers, staleness);
    while (!clock.have_all_finished()) {
      std::vector<std::size_t> able;
      for (std::size_t worker = 0; worker < workers; ++worker)
        if (!clock.has_finished(worker) && clock.may_start(worker)) able.push_back(worker);
      ASSERT_FALSE(able.empty());
      const std::size_t worker = able[random() % able.size()];
      for (std::size_t other = 0; other < workers; ++other) {
        if (!clock.has_finished(other)) {
          ASSERT_LE(clock.clock(worker), clock.clock(other) + staleness);
        }
      }
      clock.complete(worker);
      if (clock.clock(worker) == 10) clock.finish(worker);
    }
  }
}

}  // namespace
}  // namespace horo::ops
