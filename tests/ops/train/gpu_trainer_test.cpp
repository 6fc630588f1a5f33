// On GPUs, in a job of processes; ranks may share one.
#include "horo/open_gpu.h"
#include "tests/ops/train/device_training.h"

namespace horo::ops {
namespace {

TEST(GpuTrainer, TrainsAsTheHostDoes) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_it_trains_as_the_host(*gpu, context);
}

TEST(GpuTrainer, PerceptronAndResNetTrainAsOnTheHost) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_other_networks_train_as_on_the_host(*gpu, context);
}

TEST(GpuTrainer, AdamWTrainsAsOnTheHost) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_adamw_trains_as_the_host(*gpu, context);
}

TEST(GpuTrainer, LearnsInBFloat16) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_it_learns_in_bfloat16(*gpu, context);
}

TEST(GpuTrainer, LearnsFromANarrowWire) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_it_learns_from_a_narrow_wire(*gpu, context);
}

TEST(GpuTrainer, Clips) {
  Context context = init();
  const auto gpu = open_gpu(context);
  check_that_it_clips(*gpu, context);
}

}  // namespace
}  // namespace horo::ops
