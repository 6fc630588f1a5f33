#include "horo/metrics/step_meter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace horo::metrics {
namespace {

using std::chrono::milliseconds;

TEST(StepMeter, SeparatesOwnAndBlockedTime) {
  auto meter = std::make_shared<RankMeter>();
  StepMeter steps(meter, {"g", "", 2});
  for (int step = 0; step < 2; ++step) {
    {
      const std::uint64_t phase = meter->begin_phase("data");
      std::this_thread::sleep_for(milliseconds(3));
      meter->end_phase(phase);
    }
    {
      const Blocked named(meter.get());
      std::this_thread::sleep_for(milliseconds(2));
    }
    const Blocked wait(meter.get());
    for (const std::uint64_t bytes : {70, 30}) {
      steps.begin_exchange();
      std::this_thread::sleep_for(milliseconds(1));
      steps.end_exchange(bytes);
    }
    steps.end_step(wait, step == 0 ? std::nullopt : std::optional<std::uint64_t>(50));
  }
  std::vector<StepRecord> records;
  meter->drain(records);
  ASSERT_EQ(records.size(), 2u);
  for (const StepRecord& record : records) {
    EXPECT_EQ(record.buckets, 2u);
    EXPECT_EQ(record.bytes, 100u);
    EXPECT_GE(record.exchange, 2'000'000);
    EXPECT_GE(record.exposed, record.exchange);
    EXPECT_GE(record.blocked, record.exposed + 2'000'000) << "also in named operations";
    EXPECT_GE(record.phases[0], 3'000'000);
    EXPECT_GE(record.own(), record.phases[0]);
    EXPECT_EQ(record.own() + record.blocked, record.length);
  }
  EXPECT_EQ(records[1].ended - records[1].length, records[0].ended) << "steps tile the time";
  EXPECT_FALSE(records[0].wire_bytes);
  EXPECT_EQ(records[1].wire_bytes, 50u);
}

TEST(StepMeter, DroppedStepLeavesNothing) {
  auto meter = std::make_shared<RankMeter>();
  StepMeter steps(meter, {"g", "", 2});
  steps.begin_exchange();
  steps.end_exchange(70);
  steps.drop_step();
  steps.begin_exchange();
  steps.end_exchange(30);
  steps.end_step(Blocked(meter.get()), std::nullopt);
  EXPECT_EQ(meter->snapshot(observe::flight_clock()).plans[0].sums.bytes, 30u);
}

TEST(StepMeter, DisabledMeterDoesNothing) {
  StepMeter steps;
  EXPECT_FALSE(steps.is_on());
  steps.begin_exchange();
  steps.end_exchange(1);
  const Blocked wait(steps.rank_meter());
  steps.end_step(wait, std::nullopt);
  EXPECT_EQ(wait.since(), 0);
}

}  // namespace
}  // namespace horo::metrics
