#include "horo/observe/rank_activity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

TEST(RankActivity, PartsAreAddedUpOldestFirstWhileTheyAreRegistered) {
  Topology topology;
  RankActivity activity(topology);
  const auto part = [](const std::string& name, WallTime submitted) {
    return [=](RankSnapshot& snapshot) {
      snapshot.open.push_back(make_rank(0, name, submitted).open[0]);
      snapshot.finished += 5;
      snapshot.last_finished = "before " + name;
    };
  };
  auto later = activity.add(part("later", 20));
  auto earlier = activity.add(part("earlier", 10));
  RankSnapshot snapshot = activity.snapshot();
  EXPECT_EQ(snapshot.rank, 0);
  EXPECT_EQ(snapshot.host, "localhost");
  EXPECT_EQ(snapshot.pid, getpid());
  ASSERT_EQ(snapshot.open.size(), 2u);
  EXPECT_EQ(snapshot.open[0].name, "earlier");
  EXPECT_EQ(snapshot.finished, 10u);
  EXPECT_EQ(snapshot.last_finished, "before earlier");
  EXPECT_GT(snapshot.last_finished_at, 0);

  earlier.reset();
  snapshot = activity.snapshot();
  ASSERT_EQ(snapshot.open.size(), 1u);
  EXPECT_EQ(snapshot.open[0].name, "later");
  later.reset();
  EXPECT_EQ(activity.snapshot().last_finished, "before later") << "what was last is remembered";
}

TEST(RankActivity, TheFirstFailureCounts) {
  Topology topology;
  RankActivity activity(topology);
  EXPECT_EQ(activity.snapshot().failure, "");
  activity.fail("disk full");
  activity.fail("another");
  EXPECT_EQ(activity.snapshot().failure, "disk full");
}

}  // namespace
}  // namespace horo::observe
