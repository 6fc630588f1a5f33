#include "horo/flight_recorder/recorded_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/plan_flight.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

OpenFlight submit(FlightRecorder& recorder, const std::string& name) {
  FlightRecord record{};
  record.name = recorder.name(name);
  record.kind = static_cast<std::uint16_t>(recorder.name("allreduce"));
  record.bytes = 8;
  record.submitted = flight_clock();
  return recorder.open(record);
}

std::vector<std::string> open_names(const RankSnapshot& snapshot) {
  std::vector<std::string> names;
  for (const OpenOperation& open : snapshot.open) names.push_back(open.name);
  return names;
}

PlanDescription make_plan(std::size_t gradients, std::size_t buckets) {
  PlanDescription plan{.name = "p", .process_set = "{0, 2}"};
  for (std::size_t i = 0; i < gradients; ++i) {
    plan.gradients.push_back(fmt::format("g{}", i));
    plan.bucket_of.push_back(i % buckets);
  }
  plan.bytes_of.assign(buckets, 1000);
  return plan;
}

TEST(RecordedState, ShowsRunningCallback) {
  FlightRecorder recorder({.rank = 0, .size = 2, .host = "b", .path = {}});
  RecordedState state(recorder);
  FlightRecord record{};
  record.name = recorder.name("loss");
  record.kind = static_cast<std::uint16_t>(recorder.name(kCallbackKind));
  record.submitted = flight_clock();
  {
    const OpenFlight running = recorder.open(record);
    const RankSnapshot seen = state.snapshot();
    EXPECT_EQ(seen.callback, "loss");
    EXPECT_NEAR(static_cast<double>(seen.callback_since), static_cast<double>(wall_time_now()),
                60e9);
    EXPECT_THAT(open_names(seen), IsEmpty());
  }
  EXPECT_EQ(state.snapshot().callback, "");
  EXPECT_EQ(state.snapshot().finished, 0u);
}

TEST(RecordedState, IgnoresEndedCallbackOfFailedRank) {
  FlightRecorder recorder(FlightJob{});
  FlightRecord record{};
  record.kind = static_cast<std::uint16_t>(recorder.name(kCallbackKind));
  record.name = recorder.name("running");
  record.submitted = 2;
  const OpenFlight running = recorder.open(record);
  record.name = recorder.name("ended");
  record.submitted = 1;
  {
    const OpenFlight ended = recorder.open(record);
    recorder.fail("rank 1 is dead");
  }
  EXPECT_EQ(snapshot_of(parse_flight(recorder.image())).callback, "running");
}

TEST(RecordedState, ShowsActivityByThisHostsClock) {
  const std::int64_t hour = 3600 * kSecond;
  FlightRecorder recorder({.rank = 3, .size = 5, .host = "b", .clock_offset = hour, .path = {}});
  RecordedState state(recorder);
  submit(recorder, "loss").finish(flight_clock());
  OpenFlight open = submit(recorder, "metric");
  open.start(flight_clock(), flight_clock());
  const auto phase = recorder.begin(FlightRecorder::SpanKind::kPhase, "forward");
  const auto pause = recorder.begin(FlightRecorder::SpanKind::kPause, "checkpoint");
  const RankSnapshot seen = state.snapshot();
  EXPECT_EQ(seen.rank, 3);
  EXPECT_EQ(seen.host, "b");
  EXPECT_EQ(seen.pid, getpid());
  EXPECT_EQ(seen.liveness, Liveness::kRunning);
  EXPECT_EQ(seen.finished, 1u);
  EXPECT_EQ(seen.last_finished, "loss");
  EXPECT_THAT(open_names(seen), ElementsAre("metric"));
  EXPECT_EQ(seen.phase, "forward");
  EXPECT_EQ(seen.pause, "checkpoint");
  EXPECT_EQ(seen.failure, "");
  const WallTime now = wall_time_now();
  for (const WallTime time : {seen.taken, seen.last_sign_of_life, seen.last_finished_at,
                              seen.phase_since, seen.open[0].submitted, seen.open[0].started}) {
    EXPECT_LE(time, now);
    EXPECT_GT(time, now - 60 * kSecond);
  }
  recorder.end(FlightRecorder::SpanKind::kPause, pause);
  recorder.end(FlightRecorder::SpanKind::kPhase, phase);
  EXPECT_EQ(state.snapshot().pause, "");
}

TEST(RecordedState, KeepsStuckAndDropsAbandonedOperations) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  OpenFlight stuck = submit(recorder, "stuck");
  {
    const OpenFlight given_up = submit(recorder, "given up");
    recorder.fail("rank 1 is dead");
  }
  const RankSnapshot seen = state.snapshot();
  EXPECT_EQ(seen.failure, "rank 1 is dead");
  EXPECT_THAT(open_names(seen), ElementsAre("stuck"));
  // A reader of the file sees both.
  EXPECT_THAT(open_names(snapshot_of(parse_flight(recorder.image()))),
              ElementsAre("stuck", "given up"));
}

TEST(RecordedState, WaitsOnlyForCurrentBucket) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  PlanFlight plan(recorder, make_plan(6, 3));
  for (const std::size_t i : {0, 1, 2, 3}) plan.mark(i);
  const RankSnapshot computing = state.snapshot();
  EXPECT_THAT(open_names(computing), ElementsAre("p/g0", "p/g3", "p/g1"))
      << "of the next two buckets";
  for (const OpenOperation& open : computing.open) {
    EXPECT_EQ(open.started, 0);
    EXPECT_EQ(open.submitted, computing.taken);
    EXPECT_EQ(open.process_set, "{0, 2}");
  }
  plan.start(0);
  const RankSnapshot exchanging = state.snapshot();
  ASSERT_THAT(open_names(exchanging), ElementsAre("p/g0", "p/g3", "p/g1"));
  EXPECT_EQ(exchanging.open[0].started, exchanging.taken) << "it is seen for the first time";
  EXPECT_EQ(exchanging.open[0].submitted, exchanging.open[0].started);
  EXPECT_EQ(exchanging.open[0].bytes, 3000u) << "at most those of the plan";
  EXPECT_EQ(exchanging.open[2].started, 0);
  const RankSnapshot later = state.snapshot();
  EXPECT_LT(later.open[0].started, later.taken);
  plan.finish(0, true);
  EXPECT_THAT(open_names(state.snapshot()), ElementsAre("p/g1", "p/g2"));
  plan.start(1);
  const RankSnapshot next = state.snapshot();
  EXPECT_EQ(next.open[0].started, next.taken);
}

TEST(RecordedState, DropsExchangeThatFailed) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  PlanFlight plan(recorder, make_plan(2, 1));
  plan.mark(0);
  plan.mark(1);
  plan.start(0);
  EXPECT_THAT(open_names(state.snapshot()), ElementsAre("p/g0", "p/g1"));
  plan.fail(0, "rank 1 is dead");
  EXPECT_THAT(open_names(state.snapshot()), IsEmpty());
  EXPECT_THAT(open_names(snapshot_of(parse_flight(recorder.image()))), ElementsAre("p/g0", "p/g1"));
}

TEST(RecordedState, AgesExchangeBesidePlanOfSameName) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  PlanFlight resting(recorder, make_plan(1, 1));
  PlanFlight other(recorder, make_plan(1, 1));
  resting.mark(0);
  resting.start(0);
  const auto started = [&] {
    for (const OpenOperation& open : state.snapshot().open)
      if (open.started != 0) return open.started;
    return WallTime{0};
  };
  const WallTime first = started();
  ASSERT_NE(first, 0);
  for (int step = 0; step < 3; ++step) {
    other.mark(0);
    other.start(0);
    other.finish(0, true);
    other.end_step();
    EXPECT_NEAR(static_cast<double>(started() - first), 0,
                1e5);  // the clocks are not read at the same moment
  }
}

TEST(RecordedState, WaitsForEndOfStep) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  PlanFlight plan(recorder, make_plan(1, 1));
  plan.mark(0);
  plan.start(0);
  plan.finish(0, true);
  plan.conclude();
  const RankSnapshot seen = state.snapshot();
  ASSERT_THAT(open_names(seen), ElementsAre("p/end of step"));
  EXPECT_NE(seen.open[0].started, 0);
  EXPECT_EQ(seen.finished, 1u);
  EXPECT_THAT(open_names(snapshot_of(parse_flight(recorder.image()))),
              ElementsAre("p/end of step"));
  plan.end_step();
  EXPECT_THAT(open_names(state.snapshot()), IsEmpty());
  EXPECT_EQ(state.snapshot().finished, 1u);
}

TEST(RecordedState, ListsFirstGradientsOfLargeBucket) {
  FlightRecorder recorder(FlightJob{});
  RecordedState state(recorder);
  for (const std::size_t gradients : {std::size_t{500}, std::size_t{kGradientEntries + 1}}) {
    PlanFlight plan(recorder, make_plan(gradients, 1));
    for (std::size_t i = 0; i < gradients; ++i) plan.mark(i);
    plan.start(0);
    const auto names = open_names(state.snapshot());
    EXPECT_LE(names.size(), 100u);
    EXPECT_EQ(names.back(), "p/bucket 0");
    // Gradients beyond the recorder's capacity have no names.
    EXPECT_EQ(names.size() > 1, gradients == 500);
    plan.finish(0, true);
  }
}

}  // namespace
}  // namespace horo::observe
