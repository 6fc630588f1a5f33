#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

/// Gathers the costs of all ranks. Collective: all ranks at the same step. Allocates no device
/// memory. With several ranks in host memory, also measures the exchange; see
/// measure_communication(). Blocks, for about half a second.
JobCosts collect_costs(TrainingRun& run, const ProcessMeter& process, std::size_t first_step);

/// The bytes that a rank sends to the others; unpack() is the inverse. Throws Error for bytes that
/// pack() has not made.
std::vector<std::byte> pack(const RankCosts& costs);
RankCosts unpack(std::span<const std::byte> bytes);

}  // namespace horo::ops
