#pragma once

#include <optional>
#include <string>

#include "ops/backend/device/update/step_state.h"
#include "ops/train/step/step_timer.h"

namespace horo::ops {

using device_kernels::StepRequests;

/// How the host submitted a step to a device.
struct StepLaunch {
  double host_ms = 0;  ///< from forward to the end of the update
  /// The device had completed forward when the host had submitted the whole step.
  bool was_caught_up = false;
};

/// The result of a step. All ranks have the same result, except for times and
/// launch.
struct StepOutcome {
  float loss = 0;            ///< average over the global batch
  StepRequests requests;     ///< a value is not 0 if a rank made the request
  bool was_clipped = false;  ///< the gradients were scaled to clip_norm
  /// Names the value that was not finite if the step was skipped; otherwise empty.
  std::string why_skipped;
  /// After the step; 0 without a loss scale.
  float loss_scale = 0;
  /// Durations of the phases on a device, which the clock of the host cannot measure.
  std::optional<StepTimes> times;
  std::optional<StepLaunch> launch;  ///< unset in host memory
};

}  // namespace horo::ops
