#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ops/train/bottleneck/device_meter.h"
#include "ops/train/bottleneck/job_costs.h"
#include "ops/train/bottleneck/process_meter.h"
#include "ops/train/callbacks/callback.h"

namespace horo::ops {

/// The number of latest steps that are compared.
inline constexpr std::size_t kComparedSteps = 512;

/// The latest steps of a run, at most kComparedSteps of those from `first` on. In the first step of
/// a run buffers and kernels are made, so `first` should be at least 1; without other steps,
/// returns the last one. On a device, combines the times of the device with the waits of the host
/// that left it without work.
std::vector<StepTimes> compared_steps(const StepTimer& host, const StepTimer& device,
                                      std::size_t first);

/// What a rank has measured while it trained.
struct RankMeasurements {
  const ProcessMeter& process;
  const DeviceMeter& device;
  std::optional<LaunchCosts> launches{};
  std::size_t first_step = 1;  ///< of the timer, from which steps are compared
};

/// Gathers the costs of all ranks. Collective: all ranks at the same step. Allocates no device
/// memory. With several ranks, also measures their exchange as training does it; see
/// exchange_probe.h. Blocks, for about half a second.
JobCosts collect_costs(TrainingRun& run, const RankMeasurements& own);

/// The bytes that a rank sends to the others; unpack() is the inverse. Throws Error for bytes that
/// pack() has not made.
std::vector<std::byte> pack(const RankCosts& costs);
RankCosts unpack(std::span<const std::byte> bytes);

}  // namespace horo::ops
