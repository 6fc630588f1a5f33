#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/device_gradient_sync.h"
#include "ops/kernels/device/update.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"

namespace horo::ops {

/// Which optimizer, and how.
using OptimizerOptions = std::variant<SgdOptions, AdamWOptions>;

/// Those of an Sgd or AdamW. Throws InvalidArgument for others, which devices have no kernel for.
OptimizerOptions options_of(const Optimizer& optimizer);

/// "AdamW with beta1 0.9, ...": what all ranks have to have alike, which the learning rate is not
/// part of, as a schedule may set it.
std::string describe(const OptimizerOptions& options);

/// Sgd or AdamW for parameters on a device: one launch for all of them whose gradients have come in
/// one type, with the copies that layers compute with written on the way (and for AdamW one thread
/// more, which counts the steps). Used from one thread.
class DeviceOptimizer {
 public:
  /// Borrows the parameters. gradients[i], for each of them in order, says where its gradient is to
  /// be read, and stays there. What it keeps between steps is zero.
  DeviceOptimizer(device::Device& device, device::Stream& stream,
                  const std::vector<DeviceParameter*>& parameters,
                  std::span<const ReducedGradient> gradients, const OptimizerOptions& options);

  /// Gives the update to `stream`. The gradients' own scale comes in the place of use.scale. A step
  /// that is skipped on the device does not count.
  void step(device::Stream& stream, const device_kernels::GradientUse& use = {});
  void set_learning_rate(float learning_rate);

  /// Takes on what an optimizer with these options, of the same parameters, keeps between steps.
  /// Waits for the device.
  void upload_state(Optimizer& from, DeviceCompute& compute);
  /// The way back. Likewise.
  void download_state(Optimizer& to, DeviceCompute& compute);

 private:
  struct State {
    DeviceTensor values;  // in the device's order
    bool is_channels_last;
  };
  template <typename Entry>
  struct Group {
    device_kernels::UpdateTypes types;
    float scale;
    std::vector<Entry> tensors;
  };
  template <typename Entry>
  using Groups = std::vector<Group<Entry>>;

  template <typename Entry>
  static void add(Groups<Entry>& groups, const DeviceParameter& parameter,
                  const ReducedGradient& gradient, const Entry& entry);

  OptimizerOptions options_;
  std::vector<std::vector<State>> states_;  // [kind][parameter]
  Groups<device_kernels::SgdTensor> of_sgd_;
  Groups<device_kernels::AdamWTensor> of_adamw_;
  device::Memory clock_;  // of AdamW
};

}  // namespace horo::ops
