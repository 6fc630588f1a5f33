// A job of some steps, in which one rank is slow or crashes, for metrics_job_test.py:
//   metrics_job STEPS SLOW_RANK MILLISECONDS [crash]
#include <horo/horo.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void train(horo::Context& ctx, int steps, int slow_rank, int milliseconds, bool crashes) {
  std::vector<float> weight(50'000), bias(17);
  const std::vector<horo::NamedTensor> gradients = {{"weight", horo::TensorView(weight)},
                                                    {"bias", horo::TensorView(bias)}};
  horo::GradientSync sync(ctx, gradients, {.name = "grad"});
  for (int step = 0; step < steps; ++step) {
    {
      const horo::TraceScope phase = ctx.phase("data");
      const int length = ctx.rank() == slow_rank ? milliseconds : 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(length));
    }
    const horo::TraceScope phase = ctx.phase("backward");
    weight.assign(weight.size(), static_cast<float>(ctx.rank() + step));
    sync.ready(1);
    sync.ready(0);
    sync.wait();
    if (crashes && ctx.rank() == slow_rank && step == steps / 2) std::raise(SIGKILL);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw horo::InvalidArgument("usage: metrics_job STEPS SLOW_RANK MILLISECONDS");
    horo::Context ctx = horo::init();
    train(ctx, std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), argc > 4);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "metrics_job: %s\n", error.what());
    return 1;
  }
}
