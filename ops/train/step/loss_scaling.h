#pragma once

#include <cstdint>
#include <string>

#include "ops/backend/device/device_backend.h"
#include "ops/backend/device/update/gradient_norm.h"

namespace horo::ops {

struct LossScaleOptions {
  float initial = 65536;  ///< above 0
  /// Good steps in a row after which the scale doubles; at least 1.
  std::uint32_t growth_interval = 2000;
};

/// The loss scale of training in float16, whose small gradients would otherwise be zero: the
/// gradients of a step are multiplied by the scale, and the optimizer divides by it. A step whose
/// reduced gradients are not finite is skipped and halves the scale; after enough good steps it
/// doubles. The reduced gradients are equal on all ranks, so the ranks skip the same steps and have
/// the same scale. The values stay on the device, and no host thread waits for them. Source:
/// Micikevicius et al., "Mixed precision training" (ICLR 2018). Used from one thread.
class LossScaling {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit LossScaling(const LossScaleOptions& options = {});

  /// From now on, the value is in the memory of `backend`, which must outlive this or release().
  void move_to(DeviceBackend& backend);
  /// Brings the value back to the host. Blocks.
  void release();
  /// Frees the memory on the device without reading it.
  void reset() noexcept;

  /// In device memory; null before move_to().
  device_kernels::LossScale* on_device() const;
  std::uint32_t growth_interval() const { return options_.growth_interval; }
  /// After the submitted steps. Blocks on a device.
  device_kernels::LossScale value();
  /// What a checkpoint keeps: the scale and the number of good steps, as text.
  std::string state();
  /// Before move_to(). Throws InvalidArgument for another text.
  void set_state(const std::string& state);

 private:
  const LossScaleOptions options_;
  device_kernels::LossScale value_;
  DeviceBackend* backend_ = nullptr;
  device::Memory memory_;  // on a device
};

}  // namespace horo::ops
