#include "horo/plan/tuning/plan_tuning.h"

#include <gmock/gmock.h>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/text/log.h"
#include "tests/api/gradients/gradient_model.h"

namespace horo::plan {
namespace {

// One of two ranks on a node, with separate collectives, as if the other rank had the same step
// times.
TEST(PlanTuning, EndsOnceChoiceIsApplied) {
  collectives::InProcessJob job(1);
  const auto transport = job.transport(0);
  const auto peers = transport->make_point_to_point();
  collectives::RingCollectives ring(*peers, 1024);
  const Topology topology = make_topology(0, {"node", "node"}, {"node", "node"});
  Settings settings;
  settings.bucket_bytes = 3000;
  WholeModel model;
  PlanTuning tuning("net", model.gradients(), {.autotune = true}, settings, topology);
  set_log_level(LogLevel::kOff);
  tuning.begin(ring);
  int steps = 0;
  std::size_t collectives = 0;
  const CountCollective count = [&](std::size_t, std::size_t) { ++collectives; };
  for (; tuning.is_searching() && steps <= 60; ++steps) {
    StepReport report;
    StepExchange step{.collectives = ring, .count = count, .report = report};
    tuning.begin_exchange(step);
    EXPECT_EQ(collectives, static_cast<std::size_t>(steps)) << "one per step after the first";
    tuning.note_step(true);
    // The plan does not use the new choice yet.
    EXPECT_TRUE(tuning.is_searching());
    EXPECT_EQ(tuning.found(), "");
    tuning.begin_step();
  }
  EXPECT_GE(steps, 10);
  EXPECT_LE(steps, 60);
  EXPECT_FALSE(tuning.is_searching());
  EXPECT_THAT(tuning.found(),
              ::testing::HasSubstr("bucket_bytes=" + std::to_string(tuning.choice().bucket_bytes)));
}

TEST(PlanTuning, ReportsNothingToTune) {
  collectives::InProcessJob job(1);
  const auto transport = job.transport(0);
  const auto peers = transport->make_point_to_point();
  collectives::RingCollectives ring(*peers, 1024);
  const Topology topology = make_topology(0, {"node", "node"}, {"node", "node"});
  const Settings settings;
  std::vector<float> gradient(10);
  const NamedTensor one{"g", TensorView(gradient)};
  set_log_level(LogLevel::kWarning);
  for (const bool is_tuned : {true, false}) {
    PlanTuning tuning("net", std::span(&one, 1), {.autotune = is_tuned}, settings, topology);
    ::testing::internal::CaptureStderr();
    tuning.begin(ring);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_FALSE(tuning.is_searching());
    EXPECT_EQ(text, is_tuned ? "horo: autotune of gradients 'net': nothing to tune: every value "
                               "gives the same buckets and messages\n"
                             : "");
  }
}

}  // namespace
}  // namespace horo::plan
