// The bottleneck report of training on the stand-in, whose ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/train/bottleneck/bottleneck_report.h"
#include "tests/ops/train/device_training.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

/// Trains with a report that is not printed, and without one: the parameters must be the same.
JobBottlenecks device_report(Context& context, bool graph, std::size_t passes) {
  const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
  TrainerOptions options = small_device_options();
  options.steps = 8;
  options.accumulate = passes;
  options.device = {.device = device.get(), .graph = graph};
  const std::string expected = SmallTraining().run(context, options).param_hash;
  options.callbacks = {
      std::make_shared<BottleneckReport>(BottleneckReportOptions{.text = nullptr})};
  const std::size_t bytes = device->allocated_bytes();
  const TrainReport report = SmallTraining().run(context, options);
  EXPECT_EQ(report.param_hash, expected);
  EXPECT_EQ(device->allocated_bytes(), bytes);
  return report.bottlenecks.value();
}

TEST(DeviceReport, HasAModelAndTheLaunchesOfTheHost) {
  for (const std::size_t passes : {1, 2})
    testing::run_ranks(2, [&](Context& context) {
      const auto [costs, diagnosis] = device_report(context, false, passes);
      EXPECT_TRUE(costs.is_on_device);
      EXPECT_EQ(costs.can_be_graph, passes == 1);
      ASSERT_TRUE(costs.communication);
      EXPECT_GT(costs.communication->exchange.milliseconds, 0);
      EXPECT_GT(costs.communication->exchange.buckets, 0u);
      ASSERT_TRUE(diagnosis.model);
      EXPECT_TRUE(diagnosis.model->is_lower_bound);
      for (const RankCosts& rank : costs.ranks) {
        EXPECT_FALSE(rank.device);  // the stand-in has no driver
        ASSERT_TRUE(rank.launches);
        EXPECT_GT(rank.launches->host_ms, 0);
        EXPECT_LE(rank.launches->caught_up, 1);
      }
    });
}

TEST(DeviceReport, HasNoModelOfGraphsAndOfOneRank) {
  testing::run_ranks(2, [&](Context& context) {
    const auto [costs, diagnosis] = device_report(context, true, 1);
    EXPECT_FALSE(diagnosis.model);
    EXPECT_THAT(diagnosis.no_model, HasSubstr("graph"));
    EXPECT_FALSE(costs.can_be_graph);
  });
  testing::run_ranks(1, [&](Context& context) {
    EXPECT_EQ(device_report(context, false, 1).diagnosis.no_model, "one rank exchanges nothing");
  });
}

}  // namespace
}  // namespace horo::ops
