#include "horo/observe/exchange_progress.h"

#include <gtest/gtest.h>

#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

RankSnapshot look(ExchangeProgress& progress, WallTime taken) {
  RankSnapshot snapshot;
  snapshot.taken = taken;
  progress.add_to(snapshot, "gradients.0", 3);
  return snapshot;
}

TEST(ExchangeProgress, TheBucketInHandIsOpenSinceItWasFirstSeen) {
  ExchangeProgress progress;
  EXPECT_TRUE(look(progress, 1).open.empty());
  progress.begin();
  const RankSnapshot first = look(progress, 2);
  ASSERT_EQ(first.open.size(), 1u);
  EXPECT_EQ(first.open[0].name, "gradients.0/bucket 0");
  EXPECT_EQ(first.open[0].kind, "gradient");
  EXPECT_EQ(first.open[0].submitted, 2);
  EXPECT_EQ(look(progress, 5).open[0].submitted, 2);
  progress.end();
  const RankSnapshot second = look(progress, 6);
  EXPECT_TRUE(second.open.empty());
  EXPECT_EQ(second.finished, 1u);
  EXPECT_EQ(second.last_finished, "gradients.0/bucket 0");
  EXPECT_EQ(look(progress, 7).last_finished, "") << "nothing new";
}

TEST(ExchangeProgress, BucketsAreCountedWithinTheirStep) {
  ExchangeProgress progress;
  for (int exchange = 0; exchange < 7; ++exchange) {
    progress.begin();
    EXPECT_EQ(look(progress, exchange).open[0].name,
              "gradients.0/bucket " + std::to_string(exchange % 3));
    EXPECT_EQ(look(progress, exchange + 1).open[0].submitted, exchange);
    progress.end();
  }
  EXPECT_EQ(look(progress, 10).finished, 7u);
}

}  // namespace
}  // namespace horo::observe
