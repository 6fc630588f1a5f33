// On GPUs, in a job of processes; ranks may share one.
#include "horo/device/cuda/nvml_device.h"
#include "horo/device/gpu.h"
#include "horo/open_gpu.h"
#include "ops/train/bottleneck/bottleneck_report.h"
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

TEST(GpuTrainer, LearnsInFloat16AndSkipsOverflows) { on_gpu(check_float16); }

bool has_nvml(const device::Device& gpu) {
  try {
    (void)device::NvmlDevice(device::gpu_address(gpu)).read();
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

// The fake CUDA comes with a fake NVML.
TEST(GpuTrainer, ReportsTheUseOfTheGpu) {
  on_gpu([](device::Device& gpu, Context& context) {
    TrainerOptions options = small_device_options();
    options.steps = 12;
    options.device.device = &gpu;
    const std::string expected = SmallTraining().run(context, options).param_hash;
    options.callbacks = {std::make_shared<BottleneckReport>(
        BottleneckReportOptions{.text = nullptr,
                                .device = {.interval = std::chrono::milliseconds(1),
                                           .settling = std::chrono::milliseconds(0)}})};
    const TrainReport report = SmallTraining().run(context, options);
    EXPECT_EQ(report.param_hash, expected);
    const JobBottlenecks bottlenecks = report.bottlenecks.value();
    EXPECT_EQ(bottlenecks.diagnosis.model.has_value(), context.size() > 1);
    for (const RankCosts& rank : bottlenecks.costs.ranks) {
      EXPECT_TRUE(rank.launches);
      // Training on a real GPU may end before NVML has started.
      const bool is_fake = gpu.describe().starts_with("fake");
      EXPECT_TRUE(rank.device ? has_nvml(gpu) : !is_fake);
    }
  });
}

TEST(GpuTrainer, LearnsFromANarrowWire) { on_gpu(check_narrow_wire); }

TEST(GpuTrainer, Clips) { on_gpu(check_clipping); }

}  // namespace
}  // namespace horo::ops
