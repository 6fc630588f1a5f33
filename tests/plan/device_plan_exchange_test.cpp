#include "horo/plan/device/device_plan_exchange.h"

#include <gtest/gtest.h>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/device/host/host_device.h"

namespace horo::plan {
namespace {

// What a caller would see while the progress of an exchange is reported.
class Observer : public DevicePlanExchange::Progress {
 public:
  explicit Observer(const DevicePlanExchange& exchange) : exchange_(exchange) {}

  void begin_bucket(std::size_t) override {}
  void end_bucket(std::size_t, bool) override {
    ++buckets;
    EXPECT_TRUE(exchange_.is_in_flight());
  }
  void end_step() override {
    ++steps;
    EXPECT_TRUE(exchange_.is_in_flight());
  }
  int buckets = 0, steps = 0;

 private:
  const DevicePlanExchange& exchange_;
};

// A caller that sees no exchange in flight reads the counters, so they must be complete by then.
TEST(DevicePlanExchange, IsInFlightUntilItsProgressIsReported) {
  collectives::InProcessJob job(1);
  const auto transport = job.transport(0);
  const auto peers = transport->make_point_to_point();
  collectives::RingCollectives ring(*peers, 1024);
  const auto device = std::make_shared<device::HostDevice>();
  const auto stream = device->make_stream(device::Priority::kNormal);
  const device::Memory memory = device->allocate(64);
  const Topology topology = make_topology(0, {"node"}, {"node"});
  std::vector<NamedTensor> gradients;
  for (const std::size_t i : {0, 1})
    gradients.push_back(
        {"g" + std::to_string(i),
         TensorView(memory.data() + 32 * i, DataType::kFloat32, Shape{8}, *device)});
  DevicePlanExchange exchange({.name = "net",
                               .device = device,
                               .topology = topology,
                               .end_job = [](const std::string&) {},
                               .connect = {},
                               .policy = {},
                               .look = {},
                               .gradients = gradients,
                               .is_metric = {false, false},
                               .options = {}});
  Observer observer(exchange);
  exchange.set_progress(observer);
  const BucketPlan plan = exchange.fit(make_bucket_plan(gradients, {32}));
  exchange.use_plan(plan, ring);
  ASSERT_EQ(plan.buckets.size(), 2u);
  for (int step = 1; step <= 3; ++step) {
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      exchange.mark(plan.buckets[b].front(), stream->native());
      exchange.prepare(b);
      exchange.exchange(b, {plan.buckets[b], false, ReduceOp::kSum});
    }
    exchange.end_step();
    EXPECT_TRUE(exchange.is_in_flight());
    exchange.poll();
    EXPECT_FALSE(exchange.is_in_flight());
    EXPECT_EQ(observer.buckets, 2 * step);
    EXPECT_EQ(observer.steps, step);
  }
}

}  // namespace
}  // namespace horo::plan
