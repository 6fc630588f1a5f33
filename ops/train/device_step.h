#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/backend/device/cross_entropy.h"
#include "ops/backend/device/device_backend.h"
#include "ops/backend/device/step_state.h"
#include "ops/optim/optimizer.h"
#include "ops/train/batch_upload.h"
#include "ops/train/device_gradients.h"
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

/// Moves a model and its optimizer to a backend for the lifetime of this object, and then back to
/// the CPU. If the copy back fails, logs the failure and sets parameters, buffers and states to
/// zero.
class TrainedOnBackend {
 public:
  /// Borrows all arguments.
  TrainedOnBackend(Layer& model, Optimizer& optimizer, Backend& backend);
  ~TrainedOnBackend();
  TrainedOnBackend(const TrainedOnBackend&) = delete;
  TrainedOnBackend& operator=(const TrainedOnBackend&) = delete;

  Layer& model() const { return model_; }
  Optimizer& optimizer() const { return optimizer_; }
  /// Blocks. Throws if a copy fails.
  void move_back();

 private:
  Layer& model_;
  Optimizer& optimizer_;
};

/// The training step of a classifier on a device, in stream order: forward(), backward(),
/// exchange(), update(). All four may be captured as a graph; set_step() then precedes each launch.
/// The calls do not wait for the device; only exchange() waits for the step before the previous
/// one. Used from one thread.
class DeviceStep {
 public:
  /// Collective. Moves `model` and `optimizer`, which updates all parameters of the model in its
  /// order, to the device; the destructor moves them back. Throws InvalidArgument
  /// for options that devices do not support, see ExchangeOptions, and MismatchError on every rank
  /// if `options` or the options of `optimizer`, except the learning rate, differ between ranks.
  DeviceStep(Context& context, Layer& model, Optimizer& optimizer, const DeviceTraining& training,
             const ExchangeOptions& options = {});
  ~DeviceStep() { finish(); }

  /// Sets what later work on the stream uses: the number of the step, and the learning rate of the
  /// optimizer.
  void set_step(std::uint64_t step);
  /// The logits. pass.device_step is set here.
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
  /// Moves model and optimizer back to the CPU. Blocks. This object must not be used any more.
  void move_back() { on_device_.move_back(); }
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
  void measure();

  const ExchangeOptions options_;
  DeviceBackend backend_;
  TrainedOnBackend on_device_;
  DeviceGradients gradients_;
  GradientSync sync_;
  const std::vector<ReducedGradient> reduced_;     // one per parameter, then the loss
  const std::vector<GradientLocation> locations_;  // of the parameters
  device::Memory state_;                           // a StepState
  MeasuredGradients measured_;
  std::unordered_map<const Parameter*, std::size_t> index_of_;
  device::Memory score_;
};

}  // namespace horo::ops
