#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "horo/device/device.h"
#include "horo/gradient_sync.h"
#include "ops/backend/device/device_backend.h"
#include "ops/kernels/device/update.h"
#include "ops/nn/layer.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"

namespace horo::ops {

/// The optimizer and its options.
using OptimizerOptions = std::variant<SgdOptions, AdamWOptions>;

/// The options of an Sgd or AdamW. Throws InvalidArgument for other optimizers: there are no device
/// kernels for them.
OptimizerOptions options_of(const Optimizer& optimizer);

/// "AdamW with beta1 0.9, ...": the options that must be equal on all ranks. The learning rate is
/// not among them, since a schedule may set it.
std::string describe(const OptimizerOptions& options);

/// Sgd or AdamW for parameters on a device. One launch updates all parameters whose gradients have
/// one type, and also writes the copies that the layers compute with. AdamW needs a second launch,
/// of one thread, which counts the steps. Used from one thread.
class DeviceOptimizer {
 public:
  /// Borrows the parameters. gradients[i] is the location of the reduced gradient of parameters[i].
  /// It must not move. The optimizer state starts as zero.
  DeviceOptimizer(device::Device& device, device::Stream& stream,
                  const std::vector<Parameter*>& parameters,
                  std::span<const ReducedGradient> gradients, const OptimizerOptions& options);

  /// Submits the update to `stream`. The scale of the reduced gradients replaces use.scale. A step
  /// that is skipped on the device is not counted.
  void step(device::Stream& stream, const device_kernels::GradientUse& use = {});
  void set_learning_rate(float learning_rate);

  /// Copies the state of `from`, an optimizer with the same options and parameters, to the device.
  /// Blocks until the device is done.
  void upload_state(Optimizer& from, DeviceBackend& backend);
  /// Copies the state back to `to`. Blocks until the device is done.
  void download_state(Optimizer& to, DeviceBackend& backend);

 private:
  template <typename Entry>
  struct Group {
    device_kernels::UpdateTypes types;
    float scale;
    std::vector<Entry> tensors;
  };
  template <typename Entry>
  using Groups = std::vector<Group<Entry>>;

  template <typename Entry>
  static void add(Groups<Entry>& groups, const Parameter& parameter,
                  const ReducedGradient& gradient, const Entry& entry);

  OptimizerOptions options_;
  std::vector<std::vector<Tensor>> states_;  // [kind][parameter]
  Groups<device_kernels::SgdTensor> of_sgd_;
  Groups<device_kernels::AdamWTensor> of_adamw_;
  device::Memory clock_;  // AdamW: the number of steps
};

}  // namespace horo::ops
