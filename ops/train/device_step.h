#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/kernels/device/cross_entropy.h"
#include "ops/nn/device/to_device.h"
#include "ops/train/batch_upload.h"
#include "ops/train/device_gradients.h"
#include "ops/train/device_optimizer.h"
#include "ops/train/gradient_exchange.h"
#include "ops/train/measured_gradients.h"

namespace horo::ops {

/// How a model is trained on a device.
struct DeviceTraining {
  device::Device* device =
      nullptr;  ///< see open_gpu(); outlives the training; null: in host memory
  /// What forward and backward compute with: kFloat32, or kBFloat16, for which gradients travel as
  /// that too. The optimizer's values are float32 in any case.
  DataType type = DataType::kFloat32;
  /// See DeviceGradientSyncOptions::wire; the loss travels in float32.
  std::optional<DataType> wire{};
};

/// The parts of a classifier's training step on a device, one after the other in the order of a
/// stream: forward(), backward(), exchange(), update(). Nothing waits for the device, but
/// exchange() for one that is two steps behind. Used from one thread.
class DeviceStep {
 public:
  /// Collective. Makes the network on the device, of `model` and its values; the model may go.
  /// Throws InvalidArgument for options that devices do not have: see ExchangeOptions;
  /// MismatchError on every rank where the options of `optimizer` (but for the learning rate) or
  /// `options` differ between ranks.
  DeviceStep(Context& context, const Layer& model, const OptimizerOptions& optimizer,
             const DeviceTraining& training, const ExchangeOptions& options = {});
  ~DeviceStep() { finish(); }

  /// The logits.
  DeviceTensor forward(DeviceBatch& batch, const DevicePass& pass);
  /// The loss, divided by `normaliser`, and the gradients of a training forward(), which travel as
  /// they come.
  void backward(const DeviceTensor& logits, const DeviceBatch& batch, double normaliser);
  /// What the stream is given from now on has the gradients and the loss of all ranks.
  void exchange();
  /// Clips, if asked to, and updates the parameters, unless gradients or a loss that are not finite
  /// are looked for and found.
  void update();
  /// Waits for the device, which may have failed: that is logged.
  void finish() noexcept;
  /// Compares logits with labels; nothing is trained.
  void score(const DeviceTensor& logits, const DeviceBatch& batch);

  DeviceCompute& compute() { return compute_; }
  device::Stream& stream() const { return compute_.stream(); }
  DeviceLayer& network() { return *network_; }
  DeviceOptimizer& optimizer() { return optimizer_; }
  DeviceGradientSync& sync() { return sync_; }
  /// Of all ranks, once it is exchanged: a float32 and what it is to be multiplied with.
  const ReducedGradient& loss() const { return reduced_.back(); }
  // In memory of the device.
  /// Of the latest update(); zeros if nothing is clipped or looked for.
  const device_kernels::GradientVerdict* verdict() const { return measured_.verdict(); }
  /// Of the latest backward() or score(), of this rank.
  const device_kernels::BatchScore* batch_score() const;

 private:
  void compare(const DeviceTensor& logits, const DeviceBatch& batch, double normaliser,
               DeviceTensor* gradient, float* loss);
  device_kernels::GradientUse measure();

  const ExchangeOptions options_;
  DeviceCompute compute_;
  std::unique_ptr<DeviceLayer> network_;
  DeviceGradients gradients_;
  DeviceGradientSync sync_;
  const std::vector<ReducedGradient> reduced_;  // of each parameter, then the loss
  DeviceOptimizer optimizer_;
  MeasuredGradients measured_;
  std::unordered_map<const DeviceParameter*, std::size_t> index_of_;
  device::Memory score_;
};

}  // namespace horo::ops
