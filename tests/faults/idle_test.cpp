#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "horo/horo.h"

namespace horo {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Idle, UsesLittleCpuAndSendsNothing) {
  Context ctx = init();
  std::vector<float> x(1000, 1.0f);
  const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
  GradientSync sync(ctx, gradients);
  sync.exchange();
  ctx.allreduce(TensorView(x), {.name = "y"});
  const Counters before = ctx.counters();
  const double cpu_before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const double cpu = cpu_seconds() - cpu_before;
  EXPECT_LT(cpu, 0.01 * 2) << "seconds of CPU in 2 s";
  EXPECT_EQ(ctx.counters().control_messages_sent, before.control_messages_sent);
  if (ctx.rank() == 0) std::printf("idle for 2 s: %.2f %% of a core per rank\n", cpu / 2 * 100);
  ctx.barrier();
}

}  // namespace
}  // namespace horo
