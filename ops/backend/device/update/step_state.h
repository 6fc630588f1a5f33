#pragma once

#include <cstdint>

#include "horo/device/stream.h"

namespace horo::ops::device_kernels {

/// What changes from step to step, in device memory. A captured step reads it at each launch.
struct StepState {
  std::uint64_t step = 0;
  float learning_rate = 0;
};

/// What a rank asks for in a step; not 0: yes. The ranks exchange these values with the loss, so
/// that all ranks act at the same step.
struct StepRequests {
  float stop = 0;    ///< end training
  float save = 0;    ///< write a checkpoint
  float report = 0;  ///< print where the time of the steps so far went
};

/// Writes `values` to `state` and, unless it is null, `requests` to `requested`. One launch of one
/// thread; does not block.
void set_step(device::Stream& stream, StepState* state, const StepState& values,
              StepRequests* requested = nullptr, const StepRequests& requests = {});

}  // namespace horo::ops::device_kernels
