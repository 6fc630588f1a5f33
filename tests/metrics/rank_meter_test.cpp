#include "horo/metrics/rank_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace horo::metrics {
namespace {

using ::testing::ElementsAre;

StepRecord step_of(std::size_t plan, std::int64_t exposed) {
  return {.plan = plan,
          .length = 10 * exposed,
          .blocked = 2 * exposed,
          .exposed = exposed,
          .exchange = 3 * exposed,
          .bytes = 100};
}

TEST(RankMeter, SumsAndNumbersStepsByPlan) {
  RankMeter meter;
  const std::size_t a = meter.plan({"a", "", 4});
  const std::size_t b = meter.plan({"a", "{0, 2}", 2});
  ASSERT_NE(a, b);
  for (const std::int64_t exposed : {1, 2, 3}) meter.add(step_of(a, exposed));
  meter.add(step_of(b, 50));
  EXPECT_EQ(meter.plan({"a", "", 4}), a) << "one of the same name goes on";
  meter.add(step_of(a, 4));

  std::vector<StepRecord> records;
  meter.drain(records);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[2].step, 2u);
  EXPECT_EQ(records[3].step, 0u);
  EXPECT_EQ(records[4].step, 3u);
  const auto snapshot = meter.snapshot(observe::flight_clock());
  EXPECT_EQ(snapshot.plans[a].sums.steps, 4u);
  EXPECT_EQ(snapshot.plans[a].sums.length, 100);
  EXPECT_EQ(snapshot.plans[a].sums.blocked, 20);
  EXPECT_EQ(snapshot.plans[a].sums.exposed, 10);
  EXPECT_EQ(snapshot.plans[a].sums.exchange, 30);
  EXPECT_EQ(snapshot.plans[a].sums.bytes, 400u);
  EXPECT_FALSE(snapshot.plans[a].sums.wire_bytes);
  EXPECT_EQ(snapshot.plans[b].sums.steps, 1u);
  meter.drain(records);
  EXPECT_TRUE(records.empty());
}

TEST(RankMeter, CountsLostRecords) {
  RankMeter meter;
  const std::size_t plan = meter.plan({"a", "", 2});
  for (std::size_t i = 0; i < RankMeter::kMostRecords + 7; ++i) meter.add(step_of(plan, 1));
  EXPECT_EQ(meter.snapshot(0).lost, 7u);
  EXPECT_EQ(meter.snapshot(0).plans[plan].sums.steps, RankMeter::kMostRecords + 7);
  std::vector<StepRecord> records;
  meter.drain(records);
  EXPECT_EQ(records.size(), RankMeter::kMostRecords);
  meter.add(step_of(plan, 1));
  meter.drain(records);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].step, RankMeter::kMostRecords + 7);
  EXPECT_EQ(meter.snapshot(0).lost, 7u);
}

TEST(RankMeter, SumsPlansBeyondLimit) {
  RankMeter meter;
  for (std::size_t i = 0; i < RankMeter::kMostPlans + 3; ++i)
    meter.add(step_of(meter.plan({"p" + std::to_string(i), "", 2}), 1));
  const auto snapshot = meter.snapshot(0);
  ASSERT_EQ(snapshot.plans.size(), RankMeter::kMostPlans);
  EXPECT_EQ(snapshot.plans.back().label.name, "(others)");
  EXPECT_EQ(snapshot.plans.back().sums.steps, 4u);
}

TEST(RankMeter, CountsOverlappingWaitsOnce) {
  const std::int64_t begun = observe::flight_clock();
  RankMeter meter(begun);
  const std::int64_t first = meter.begin_wait();
  const std::int64_t second = meter.begin_wait();
  ASSERT_GE(second, first);
  EXPECT_EQ(meter.read(first + 500).blocked, 500) << "also while it lasts";
  meter.end_wait(first + 700);
  meter.end_wait(first + 1000);
  EXPECT_EQ(meter.read(first + 5000).blocked, 1000);
  const auto snapshot = meter.snapshot(first + 5000);
  EXPECT_EQ(snapshot.blocked, 1000);
  EXPECT_EQ(snapshot.own, first + 5000 - begun - 1000);
}

TEST(RankMeter, ReportsLatestWaitsOfFirstPlans) {
  RankMeter meter;
  const std::size_t plan = meter.plan({"a", "{1, 2}", 2});
  for (int i = 0; i < 3; ++i) meter.add(step_of(plan, 100 + i));
  EXPECT_THAT(meter.measured(0).plans[0].waits, ElementsAre(100, 101, 102));
  for (std::size_t i = 3; i < RankMeter::kReportedSteps + 5; ++i)
    meter.add(step_of(plan, 100 + static_cast<std::int64_t>(i)));
  for (int i = 0; i < 9; ++i) meter.plan({"other" + std::to_string(i), "", 2});
  const std::uint64_t number = meter.begin_phase("data");
  const auto times = meter.measured(observe::flight_clock() + 1000);
  meter.end_phase(number);
  ASSERT_EQ(times.plans.size(), RankMeter::kReportedPlans);
  EXPECT_EQ(times.plans[0].name, "a");
  EXPECT_EQ(times.plans[0].process_set, "{1, 2}");
  EXPECT_EQ(times.plans[0].ranks, 2);
  EXPECT_EQ(times.plans[0].steps, RankMeter::kReportedSteps + 5);
  ASSERT_EQ(times.plans[0].waits.size(), RankMeter::kReportedSteps);
  EXPECT_EQ(times.plans[0].waits.front(), 105);
  EXPECT_EQ(times.plans[0].waits.back(), 100 + RankMeter::kReportedSteps + 4);
  ASSERT_EQ(times.phases.size(), 1u);
  EXPECT_EQ(times.phases[0].name, "data");
}

TEST(RankMeter, ReportsPhasesUpToLatestStep) {
  RankMeter meter;
  const std::size_t plan = meter.plan({"a", "", 2});
  const std::uint64_t data = meter.begin_phase("data");
  const std::int64_t began = observe::flight_clock();
  EXPECT_GE(meter.measured(began + 7000).phases[0].time, 7000) << "there is no step yet";
  StepRecord step = step_of(plan, 1);
  step.ended = began + 1'000'000'000;
  meter.add(step);
  const std::int64_t time = meter.measured(began + 9'000'000'000).phases[0].time;
  EXPECT_GE(time, 1'000'000'000);
  EXPECT_LT(time, 9'000'000'000);
  meter.end_phase(data);
}

TEST(RankMeter, SupportsConcurrentWritersAndReader) {
  RankMeter meter;
  constexpr int kSteps = 2000;
  std::uint64_t taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&meter, plan = meter.plan({"p" + std::to_string(t), "", 2})] {
        for (int i = 0; i < kSteps; ++i) {
          const std::uint64_t phase = meter.begin_phase("data");
          { const Blocked wait(&meter); }
          meter.add(step_of(plan, i));
          meter.end_phase(phase);
        }
      });
    std::vector<StepRecord> records;
    for (int i = 0; i < 100; ++i) {
      meter.drain(records);
      taken += records.size();
      (void)meter.measured(observe::flight_clock());
    }
  }
  std::vector<StepRecord> records;
  meter.drain(records);
  taken += records.size();
  EXPECT_EQ(taken + meter.snapshot(0).lost, 3u * kSteps);
  for (const auto& plan : meter.snapshot(0).plans) EXPECT_EQ(plan.sums.steps, 1u * kSteps);
}

}  // namespace
}  // namespace horo::metrics
