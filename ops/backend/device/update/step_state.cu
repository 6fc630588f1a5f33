#include "horo/device/launch.h"
#include "ops/backend/device/update/step_state.h"

namespace horo::ops::device_kernels {
namespace {

struct SetStep {
  StepState* state;
  StepState values;
  StepRequests* requested;
  StepRequests requests;

  HORO_KERNEL void operator()(const device::ThreadIndex&) const {
    *state = values;
    if (requested != nullptr) *requested = requests;
  }
};

}  // namespace

void set_step(device::Stream& stream, StepState* state, const StepState& values,
              StepRequests* requested, const StepRequests& requests) {
  device::launch(stream, {1, 1}, SetStep{state, values, requested, requests});
}

}  // namespace horo::ops::device_kernels
