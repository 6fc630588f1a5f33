#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/train/bottleneck/diagnosis.h"
#include "tests/ops/train/bottleneck/made_costs.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two devices that are busy 40 % of a step of 10 ms, of which 0.5 ms are exposed communication.
JobCosts launching_job() {
  JobCosts job = made_job(2, 0.5, [](std::size_t, std::size_t) { return usual_step(); });
  job.is_on_device = job.can_be_graph = true;
  for (RankCosts& rank : job.ranks) {
    rank.device = DeviceCosts{.busy = 0.4};
    rank.launches = LaunchCosts{.host_ms = 9.2, .caught_up = 0.98};
  }
  return job;
}

bool names_launches(const JobCosts& job) {
  const Diagnosis diagnosis = diagnose(job);
  for (const Recommendation& one : diagnosis.recommendations)
    if (one.cause == Cause::kLaunches) return true;
  return false;
}

TEST(DeviceCauses, RecommendAGraphForADeviceThatWaitsForLaunches) {
  JobCosts job = launching_job();
  job.ranks[1].device->busy = 0.5;  // has less to regain
  const Diagnosis diagnosis = diagnose(job);
  ASSERT_FALSE(diagnosis.recommendations.empty());
  const Recommendation& one = diagnosis.recommendations[0];
  EXPECT_EQ(one.cause, Cause::kLaunches);
  EXPECT_EQ(one.remedy, "--graph");
  EXPECT_NEAR(one.regained_ms, 0.5 * 10 - 0.5, 1e-9);
  EXPECT_THAT(one.evidence, AllOf(HasSubstr("in 9.2 ms: in 98 % of the steps"),
                                  HasSubstr("it was busy 50 % of the time")));
  EXPECT_THAT(diagnosis.notes, IsEmpty());
}

TEST(DeviceCauses, AreSilentWhileADeviceIsBusyOrBehindTheHost) {
  JobCosts job = launching_job();
  job.ranks[1].launches->caught_up = 0.5;
  EXPECT_FALSE(names_launches(job));
  EXPECT_THAT(diagnose(job).notes, IsEmpty());
  job = launching_job();
  for (RankCosts& rank : job.ranks) rank.device->busy = 0.93;
  EXPECT_FALSE(names_launches(job));
  job = launching_job();
  for (RankCosts& rank : job.ranks) rank.launches->host_ms = 1;
  EXPECT_FALSE(names_launches(job));
  job = launching_job();
  job.is_on_device = false;
  EXPECT_FALSE(names_launches(job));
  job = launching_job();
  job.is_graph = true;
  job.can_be_graph = false;
  EXPECT_FALSE(names_launches(job));
  EXPECT_THAT(diagnose(job).notes, IsEmpty());
}

// The time for which a device waits for data, a callback or another rank is not promised.
TEST(DeviceCauses, DoNotPromiseOtherIdleTime) {
  JobCosts job = made_job(2, 0.5, [](std::size_t rank, std::size_t) {
    return usual_step({{StepPhase::kLogging, 4}, {StepPhase::kBackward, rank == 1 ? 2.0 : 0.0}});
  });
  job.is_on_device = job.can_be_graph = true;
  for (RankCosts& rank : job.ranks) {
    rank.device = DeviceCosts{.busy = 0.6};
    rank.launches = LaunchCosts{.host_ms = 9.2, .caught_up = 1};
  }
  EXPECT_FALSE(names_launches(job));  // 40 % of 16 ms are 6.4 ms
}

TEST(DeviceCauses, PromiseNothingWithoutTheBusyTime) {
  JobCosts job = launching_job();
  job.ranks[1].device.reset();
  EXPECT_FALSE(names_launches(job));
  EXPECT_THAT(diagnose(job).notes,
              ElementsAre(AllOf(HasSubstr("the device waits for the host"),
                                HasSubstr("without NVML no time can be promised"))));
  job.can_be_graph = false;
  EXPECT_THAT(diagnose(job).notes, ElementsAre(HasSubstr("needs one pass per step")));
}

TEST(DeviceCauses, NameAHotDevice) {
  JobCosts job = made_job(4, 0.1, [](std::size_t rank, std::size_t) {
    return usual_step({{StepPhase::kBackward, rank == 2 ? 3.0 : 0.0}});
  });
  for (RankCosts& rank : job.ranks) rank.device = DeviceCosts{.busy = 0.9, .hot = 0.01};
  EXPECT_THAT(diagnose(job).notes, IsEmpty());
  EXPECT_THAT(diagnose(job).recommendations[0].evidence, Not(HasSubstr("clock")));
  job.ranks[2].device->hot = 0.7;
  const Diagnosis hot = diagnose(job);
  EXPECT_EQ(hot.recommendations[0].cause, Cause::kSlowRank);
  EXPECT_THAT(
      hot.recommendations[0].evidence,
      HasSubstr("9 ms on others: the clock of its device was lowered because of its temperature"));
  EXPECT_THAT(hot.notes, ElementsAre(HasSubstr("the device of rank 2 on host was lowered 70 %")));
  for (RankCosts& rank : job.ranks) rank.device = DeviceCosts{.busy = 0.9, .power_limited = 0.9};
  EXPECT_THAT(diagnose(job).recommendations[0].evidence, Not(HasSubstr("clock")));
  for (RankCosts& rank : job.ranks) rank.device->power_limited = rank.rank == 2 ? 0.9 : 0.1;
  EXPECT_THAT(diagnose(job).recommendations[0].evidence, HasSubstr("because of its power limit"));
}

}  // namespace
}  // namespace horo::ops
