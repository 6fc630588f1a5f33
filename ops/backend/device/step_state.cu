#include "horo/device/launch.h"
#include "ops/backend/device/step_state.h"

namespace horo::ops::device_kernels {
namespace {

struct SetStep {
  StepState* state;
  StepState values;

  HORO_KERNEL void operator()(const device::ThreadIndex&) const { *state = values; }
};

}  // namespace

void set_step(device::Stream& stream, StepState* state, const StepState& values) {
  device::launch(stream, {1, 1}, SetStep{state, values});
}

}  // namespace horo::ops::device_kernels
