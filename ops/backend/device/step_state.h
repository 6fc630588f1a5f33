#pragma once

#include <cstdint>

#include "horo/device/stream.h"

namespace horo::ops::device_kernels {

/// What changes from step to step, in device memory. A captured step reads it at each launch.
struct StepState {
  std::uint64_t step = 0;
  float learning_rate = 0;
};

/// Writes `values` to `state`. One launch of one thread; does not block.
void set_step(device::Stream& stream, StepState* state, const StepState& values);

}  // namespace horo::ops::device_kernels
