#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "collectives/collectives.h"
#include "collectives/in_process/in_process_job.h"
#include "horo/base/error.h"
#include "horo/runtime.h"
#include "tests/tuning/tuned_job.h"

namespace horo {
namespace {

// Another's transport, whose first node has no more shared memory once `is_full`.
class FullNode : public collectives::Transport {
 public:
  FullNode(std::unique_ptr<Transport> whole, const std::atomic<bool>& is_full)
      : whole_(std::move(whole)), is_full_(is_full) {}
  const Topology& topology() const override { return whole_->topology(); }
  const WaitPolicy& wait_policy() const override { return whole_->wait_policy(); }
  std::unique_ptr<collectives::PointToPoint> make_point_to_point() override {
    return whole_->make_point_to_point();
  }
  std::unique_ptr<collectives::MessageChannel> make_message_channel() override {
    return whole_->make_message_channel();
  }
  std::unique_ptr<collectives::SharedRegion> make_node_region(std::size_t bytes) override {
    if (is_full_ && topology().node == 0) throw SharedMemoryError("/dev/shm is full");
    return whole_->make_node_region(bytes);
  }
  std::unique_ptr<collectives::Collectives> make_reference_collectives() override {
    return nullptr;
  }
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override {
    return whole_->make_subset(members, number);
  }
  void abort(const char* text) noexcept override { whole_->abort(text); }

 private:
  std::unique_ptr<Transport> whole_;
  const std::atomic<bool>& is_full_;
};

TEST(TuningMemory, ANodeWithoutMemoryEndsTheSearchAndNotTheJob) {
  const testing::RunOptions options = tuned({4, 2});
  ParsedEnvironment environment = parse_environment(options.environment);
  collectives::InProcessJob::Options job_options;
  job_options.wait = make_wait_policy(environment.settings, 4);
  job_options.ranks_per_node = 2;
  collectives::InProcessJob job(4, job_options);
  std::atomic<bool> is_full = false;
  set_log_level(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] {
        Context ctx(std::make_shared<Runtime>(
            nullptr, std::make_unique<FullNode>(job.transport(rank), is_full), environment));
        WholeModel model;
        GradientSync sync(ctx, model.gradients(), {.name = "net", .op = ReduceOp::kSum});
        EXPECT_TRUE(sync.is_tuning());
        ctx.barrier();
        is_full = true;
        // One ring needs no memory of the node; the way back to the start, at the latest, does.
        EXPECT_LT(tune_to_the_end(ctx, sync, model), 60);
        EXPECT_FALSE(sync.is_tuning());
        for (int step = 0; step < 5; ++step) expect_exact_step(ctx, sync, model, step);
        ctx.shutdown();
      });
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string text = "autotune of gradients 'net' ends early";
  EXPECT_THAT(log, ::testing::HasSubstr(text));
  EXPECT_EQ(log.find(text), log.rfind(text));
}

}  // namespace
}  // namespace horo
