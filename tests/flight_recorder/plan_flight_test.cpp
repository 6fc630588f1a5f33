#include "horo/flight_recorder/plan_flight.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "horo/flight_recorder/flight_reader.h"

namespace horo::observe {
namespace {

PlanDescription describe(const std::string& name, std::size_t gradients, std::size_t bucket_bytes) {
  PlanDescription description{.name = name, .bytes_of = {bucket_bytes}};
  for (std::size_t i = 0; i < gradients; ++i) {
    description.gradients.push_back(fmt::format("g{}", i));
    description.bucket_of.push_back(0);
  }
  return description;
}

void run_step(PlanFlight& plan, std::size_t gradients) {
  for (std::size_t i = 0; i < gradients; ++i) {
    if (i == 0) plan.first(0);
    plan.mark(i);
  }
  plan.complete(0);
  plan.start(0);
  plan.finish(0, true);
  plan.end_step();
}

FlightLog plan_log_of(const FlightRecorder& recorder) { return parse_flight(recorder.image()); }

TEST(PlanFlight, RecordsLargeBucketsEveryStep) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(recorder, describe("p", 3, PlanFlight::kAlwaysTimed));
  for (int step = 0; step < 5; ++step) run_step(plan, 3);
  const FlightLog log = plan_log_of(recorder);
  ASSERT_EQ(log.finished_events.size(), 5u);
  for (const FlightEvent& event : log.finished_events) {
    EXPECT_EQ(event.name, "p/bucket 0");
    EXPECT_EQ(event.kind, "bucket");
    EXPECT_EQ(event.lane, kFirstPlanLane);
    EXPECT_LE(event.submitted, event.agreed);
    EXPECT_LE(event.agreed, event.started);
    EXPECT_LE(event.started, event.ended);
  }
  ASSERT_EQ(log.plans.size(), 1u);
  EXPECT_EQ(log.plans[0].progress.step, 5u);
}

TEST(PlanFlight, CountsMarkOfLaterStepForThisStep) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(recorder, describe("p", 3, 8));
  run_step(plan, 3);
  plan.mark_in_step(0, 1);
  plan.mark_in_step(1, 2);
  const FlightLog log = plan_log_of(recorder);
  ASSERT_EQ(log.plans.size(), 1u);
  std::vector<bool> marked;
  for (const auto& gradient : log.plans[0].gradients) marked.push_back(gradient.is_marked);
  EXPECT_EQ(marked, (std::vector<bool>{true, true, false}));
}

TEST(PlanFlight, RecordsSmallBucketsOncePerPulse) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(recorder, describe("p", 1, 8));
  run_step(plan, 1);  // observes the pulse of the start, and is recorded itself as the first step
  run_step(plan, 1);
  const std::size_t before = plan_log_of(recorder).finished_events.size();
  for (int step = 0; step < 100; ++step) run_step(plan, 1);
  EXPECT_EQ(plan_log_of(recorder).finished_events.size(), before);
  recorder.pulse();
  for (int step = 0; step < 100; ++step) run_step(plan, 1);
  EXPECT_EQ(plan_log_of(recorder).finished_events.size(), before + 1);
  EXPECT_EQ(plan_log_of(recorder).plans[0].progress.step, 202u) << "progress is always known";
}

TEST(PlanFlight, RecordsWaitForThreadAsProgramEvent) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(recorder, describe("p", 1, PlanFlight::kAlwaysTimed));
  EXPECT_TRUE(plan.is_timed(0));
  const std::int64_t since = flight_clock();
  run_step(plan, 1);
  plan.record_wait(since);
  const FlightLog log = plan_log_of(recorder);
  ASSERT_EQ(log.finished_events.size(), 2u);
  const FlightEvent& wait = log.finished_events[1];
  EXPECT_EQ(wait.name, "p");
  EXPECT_EQ(wait.kind, kWaitKind);
  EXPECT_EQ(wait.lane, kProgramLane);
  EXPECT_EQ(wait.submitted, 0);
  EXPECT_LE(wait.started, log.finished_events[0].started);
  EXPECT_GE(wait.ended, log.finished_events[0].ended);
  EXPECT_EQ(snapshot_of(log).last_finished, "p/bucket 0");
}

TEST(PlanFlight, PulseRecordsLastProgress) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight plan(recorder, describe("p", 2, 8));
  recorder.pulse();
  const WallTime at_first = plan_log_of(recorder).plans[0].progress_at;
  recorder.pulse();
  EXPECT_EQ(plan_log_of(recorder).plans[0].progress_at, at_first) << "nothing has changed";
  plan.mark(1);
  recorder.pulse();
  const WallTime at_mark = plan_log_of(recorder).plans[0].progress_at;
  EXPECT_GT(at_mark, at_first);
  EXPECT_EQ(plan_log_of(recorder).plans[0].step_at, 0);
  plan.mark(0);
  plan.start(0);
  plan.finish(0, false);
  plan.end_step();
  recorder.pulse();
  EXPECT_GT(plan_log_of(recorder).plans[0].step_at, at_mark);
  EXPECT_EQ(snapshot_of(plan_log_of(recorder)).last_finished, "p step 0");
}

TEST(PlanFlight, FreesSlot) {
  FlightRecorder recorder(FlightJob{});
  for (std::uint32_t i = 0; i < 3 * kPlanEntries; ++i) {
    PlanFlight plan(recorder, describe("p", 1000, 8));
    run_step(plan, 1000);
    ASSERT_EQ(plan_log_of(recorder).plans.size(), 1u);
    ASSERT_EQ(plan_log_of(recorder).plans[0].gradients.size(), 1000u);
  }
  EXPECT_TRUE(plan_log_of(recorder).plans.empty());
  EXPECT_EQ(plan_log_of(recorder).finished, 3u * kPlanEntries);
}

TEST(PlanFlight, WorksWithoutGradientsWhenTableIsFull) {
  FlightRecorder recorder(FlightJob{});
  PlanFlight first(recorder, describe("first", 3000, 8));
  PlanFlight second(recorder, describe("second", 3000, 8));
  PlanFlight third(recorder, describe("third", 1000, 8));
  run_step(second, 3000);
  third.mark(7);
  const FlightLog log = plan_log_of(recorder);
  ASSERT_EQ(log.plans.size(), 3u);
  EXPECT_EQ(log.plans[0].gradients.size(), 3000u);
  EXPECT_EQ(log.plans[1].gradients.size(), 0u);
  EXPECT_EQ(log.plans[1].progress.step, 1u);
  ASSERT_EQ(log.plans[2].gradients.size(), 1000u);
  EXPECT_TRUE(log.plans[2].gradients[7].is_marked);
  EXPECT_FALSE(log.plans[2].gradients[8].is_marked);
  std::vector<std::unique_ptr<PlanFlight>> more;
  for (std::uint32_t i = 0; i < kPlanEntries; ++i)
    more.push_back(std::make_unique<PlanFlight>(recorder, describe("more", 2, 8)));
  run_step(*more.back(), 2);
  EXPECT_EQ(plan_log_of(recorder).plans.size(), kPlanEntries);
}

TEST(PlanFlight, NamesBucketInFailure) {
  FlightRecorder recorder(FlightJob{});
  {
    PlanFlight plan(recorder, describe("p", 2, 8));
    plan.mark(0);
    plan.start(0);
    plan.fail(0, "waited 5s for rank 1");
  }
  const FlightLog log = plan_log_of(recorder);
  EXPECT_EQ(log.failure, "'p/bucket 0': waited 5s for rank 1");
  ASSERT_EQ(log.plans.size(), 1u) << "kept for the reader";
  EXPECT_TRUE(log.plans[0].progress.is_exchanging);
  EXPECT_TRUE(log.plans[0].gradients[0].is_marked);
  EXPECT_FALSE(log.plans[0].gradients[1].is_marked);
}

}  // namespace
}  // namespace horo::observe
