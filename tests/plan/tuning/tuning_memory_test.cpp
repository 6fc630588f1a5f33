#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "collectives/collectives.h"
#include "collectives/in_process/in_process_job.h"
#include "horo/base/error.h"
#include "horo/runtime/runtime.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

// Wraps a transport. With `is_full`, its nodes have no more shared memory, and all ranks get the
// error.
class FullNode : public collectives::Transport {
 public:
  FullNode(std::unique_ptr<Transport> whole, const std::atomic<bool>& is_full)
      : whole_(std::move(whole)), is_full_(is_full) {}
  const Topology& topology() const override { return whole_->topology(); }
  const WaitPolicy& wait_policy() const override { return whole_->wait_policy(); }
  std::shared_ptr<AbortSignal> abort_signal() const override { return whole_->abort_signal(); }
  std::unique_ptr<collectives::PointToPoint> make_point_to_point() override {
    return whole_->make_point_to_point();
  }
  std::unique_ptr<collectives::MessageChannel> make_message_channel() override {
    return whole_->make_message_channel();
  }
  std::unique_ptr<collectives::SharedRegion> make_node_region(std::size_t bytes) override {
    if (is_full_) throw SharedMemoryError("/dev/shm is full");
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

TEST(TuningMemory, SearchAllocatesNothingBeyondPlan) {
  const observe::TemporaryDirectory directory;
  const std::string path = directory.file("tuned");
  const testing::RunOptions options = tuned({4, 2}, path);
  ParsedEnvironment environment = parse_environment(options.environment);
  collectives::InProcessJob::Options job_options;
  job_options.wait = make_wait_policy(environment.settings, 4);
  job_options.ranks_per_node = 2;
  collectives::InProcessJob job(4, job_options);
  std::atomic<bool> is_full = false;
  set_log_level(LogLevel::kDebug);
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
        EXPECT_THROW((void)ctx.allocate(4000), SharedMemoryError);
        EXPECT_GE(tune_to_end(ctx, sync, model), 10);
        EXPECT_FALSE(sync.is_tuning());
        for (int step = 0; step < 5; ++step) expect_exact_step(ctx, sync, model, step);
        ctx.shutdown();
      });
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("trial 2: hierarchical=0"));
  EXPECT_THAT(log, ::testing::HasSubstr("autotune of gradients 'net': "));
  EXPECT_EQ(lines_of(path).size(), 1u);
}

}  // namespace
}  // namespace horo
