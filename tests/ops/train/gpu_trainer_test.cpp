// On GPUs, in a job of processes; ranks may share one.
#include "horo/open_gpu.h"
#include "tests/ops/train/device_training.h"

namespace horo::ops {
namespace {

void on_gpu(void (*check)(device::Device&, Context&)) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check(*gpu, context);
}

TEST(GpuTrainer, MatchesTheHost) { on_gpu(compare_with_host); }

TEST(GpuTrainer, PerceptronAndResNetMatchTheHost) {
  on_gpu([](device::Device& device, Context& context) {
    compare_other_networks_with_host(device, context, 0.1);
  });
}

TEST(GpuTrainer, AdamWMatchesTheHost) { on_gpu(compare_adamw_with_host); }

TEST(GpuTrainer, GraphsMatchPlainSteps) { on_gpu(compare_graphs_with_plain_steps); }

TEST(GpuTrainer, LearnsInBFloat16) { on_gpu(check_bfloat16); }

TEST(GpuTrainer, LearnsFromANarrowWire) { on_gpu(check_narrow_wire); }

TEST(GpuTrainer, Clips) { on_gpu(check_clipping); }

}  // namespace
}  // namespace horo::ops
