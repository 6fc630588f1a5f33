#include "horo/tuning/plan_tuning.h"

#include <gmock/gmock.h>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/log.h"
#include "tests/api/gradient_model.h"

namespace horo::tuning {
namespace {

// One of two ranks on a node, with collectives of its own: the other takes as long as this one.
TEST(PlanTuning, EndsOnceWhatItHasFoundIsInForce) {
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
  for (; tuning.is_searching() && steps <= 60; ++steps) {
    tuning.meet(ring);
    tuning.end_step(true);
    // What it has chosen now is not in force yet.
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

}  // namespace
}  // namespace horo::tuning
