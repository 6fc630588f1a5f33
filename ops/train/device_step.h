#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/backend/device/device_backend.h"
#include "ops/kernels/device/cross_entropy.h"
#include "ops/train/batch_upload.h"
#include "ops/train/device_gradients.h"
#include "ops/train/device_optimizer.h"
#include "ops/train/gradient_exchange.h"

namespace horo::ops {

/// Where and in which types a model trains on a device.
struct DeviceTraining {
  device::Device* device =
      nullptr;  ///< see open_gpu(); must outlive the training; null: host memory
  /// Element type of forward and backward: kFloat32 or kBFloat16. Gradients are exchanged in this
  /// type too. The optimizer always updates float32 values.
  DataType type = DataType::kFloat32;
  /// See GradientSyncOptions::wire. The loss is exchanged in float32.
  std::optional<DataType> wire{};
};

/// Moves a model to a backend for the lifetime of this object, and then back to the CPU. If the
/// copy back fails, logs the failure and sets the parameters and buffers to zero.
class ModelOnBackend {
 public:
  /// Borrows both.
  ModelOnBackend(Layer& model, Backend& backend) : model_(model) { model.move_to(backend); }
  ~ModelOnBackend();
  ModelOnBackend(const ModelOnBackend&) = delete;
  ModelOnBackend& operator=(const ModelOnBackend&) = delete;

  Layer& model() const { return model_; }

 private:
  Layer& model_;
};

/// The training step of a classifier on a device, in stream order: forward(), backward(),
/// exchange(), update(). The calls do not wait for the device; only exchange() waits for the step
/// before the previous one. Used from one thread.
class DeviceStep {
 public:
  /// Collective. Moves `model` to the device; the destructor moves it back. Throws InvalidArgument
  /// for options that devices do not support, see ExchangeOptions, and MismatchError on every rank
  /// if `options` or the options of `optimizer`, except the learning rate, differ between ranks.
  DeviceStep(Context& context, Layer& model, const OptimizerOptions& optimizer,
             const DeviceTraining& training, const ExchangeOptions& options = {});
  ~DeviceStep() { finish(); }

  /// The logits.
  Tensor forward(DeviceBatch& batch, const Pass& pass);
  /// Computes the loss, divided by `normaliser`, and the gradients of a training forward(). Buckets
  /// are exchanged as soon as their gradients are ready.
  void backward(const Tensor& logits, const DeviceBatch& batch, double normaliser);
  /// Makes later work on the stream see the reduced gradients and the loss of all ranks.
  void exchange();
  /// Clips the gradients if clipping is on and updates the parameters. With the finite check on, a
  /// step with a non-finite gradient or loss is skipped.
  void update();
  /// Blocks until the device is done; logs its failures.
  void finish() noexcept;
  /// Compares logits with labels, without gradients.
  void score(const Tensor& logits, const DeviceBatch& batch);

  DeviceBackend& backend() { return backend_; }
  device::Stream& stream() const { return backend_.stream(); }
  Layer& model() { return on_device_.model(); }
  DeviceOptimizer& optimizer() { return optimizer_; }
  GradientSync& sync() { return sync_; }
  /// The loss over all ranks after exchange(): a float32 in device memory, and its factor.
  const ReducedGradient& loss() const { return reduced_.back(); }
  // Results in device memory.
  /// Of the latest update(); zeros without clipping and the finite check.
  const device_kernels::GradientVerdict* verdict() const { return measured_.verdict(); }
  /// Of the latest backward() or score() on this rank.
  const device_kernels::BatchScore* batch_score() const;

 private:
  void compare(const Tensor& logits, const DeviceBatch& batch, double normaliser, Tensor* gradient,
               float* loss);
  device_kernels::GradientUse measure();

  const ExchangeOptions options_;
  DeviceBackend backend_;
  ModelOnBackend on_device_;
  DeviceGradients gradients_;
  GradientSync sync_;
  const std::vector<ReducedGradient> reduced_;  // one per parameter, then the loss
  DeviceOptimizer optimizer_;
  MeasuredGradients measured_;
  std::unordered_map<const Parameter*, std::size_t> index_of_;
  device::Memory score_;
};

}  // namespace horo::ops
