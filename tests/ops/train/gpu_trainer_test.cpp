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

TEST(GpuTrainer, TrainsAsTheHostDoes) { on_gpu(check_that_it_trains_as_the_host); }

TEST(GpuTrainer, PerceptronAndResNetTrainAsOnTheHost) {
  on_gpu(check_that_other_networks_train_as_on_the_host);
}

TEST(GpuTrainer, AdamWTrainsAsOnTheHost) { on_gpu(check_that_adamw_trains_as_the_host); }

TEST(GpuTrainer, LearnsInBFloat16) { on_gpu(check_that_it_learns_in_bfloat16); }

TEST(GpuTrainer, LearnsFromANarrowWire) { on_gpu(check_that_it_learns_from_a_narrow_wire); }

TEST(GpuTrainer, Clips) { on_gpu(check_that_it_clips); }

}  // namespace
}  // namespace horo::ops
