#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/backend/device/device_backend.h"
#include "ops/data/data_loader.h"
#include "ops/nn/loss.h"
#include "ops/optim/optimizer.h"
#include "ops/train/step/gradient_block.h"
#include "ops/train/step/loss_scaling.h"
#include "ops/train/step/measured_gradients.h"
#include "ops/train/update/local_steps.h"
#include "ops/train/update/update_method.h"

namespace horo::ops {

/// Where and in which types a model trains on a device.
struct DeviceTraining {
  device::Device* device =
      nullptr;  ///< see open_gpu(); must outlive the training; null: host memory
  /// Element type of forward and backward: kFloat32, kBFloat16, or kFloat16 with a loss scale.
  /// Gradients are exchanged in this type too. The optimizer always updates float32 values.
  DataType type = DataType::kFloat32;
  LossScaleOptions loss_scale{};  ///< of kFloat16
  /// Trainer: runs steps as a graph, after a few plain ones, with the same results. The host then
  /// submits one launch per step, which is faster for small batches. Evaluation discards the graph.
  /// The times of the phases cannot be measured; a whole graph counts as forward. For one pass per
  /// step; GradientSync::capture() lists what else cannot be captured.
  bool graph = false;
};

/// See GradientSyncOptions.
struct ExchangeOptions {
  ReduceOp op = ReduceOp::kAverage;  ///< how the gradients of the ranks are combined
  Compression compression{};         ///< of the gradients
  /// See GradientSyncOptions::wire. The scalars are exchanged in float32.
  std::optional<DataType> wire{};
  /// Backward passes per step; their gradients and losses are summed in float32.
  std::size_t passes = 1;
  std::optional<double> clip_norm{};  ///< of the reduced gradients
  bool check_finite = false;          ///< of the reduced gradients
  /// Each rank keeps the optimizer state of a part of the parameters; see ShardedUpdate.
  bool shard_optimizer = false;
  /// Ranks take several steps between exchanges; see LocalUpdate. `compression` and `wire` then
  /// apply to what these exchanges send.
  LocalSteps local_steps{};
  /// With local_steps: the number of steps after which all ranks must have equal parameters, since
  /// the begin of training; 0: only after move_back().
  std::uint64_t last_step = 0;
  /// Borrowed; required with DeviceTraining::type kFloat16, together with check_finite.
  LossScaling* loss_scaling = nullptr;
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

  /// The model, on the backend.
  Layer& model() const { return model_; }
  /// The optimizer, on the backend.
  Optimizer& optimizer() const { return optimizer_; }
  /// Blocks. Throws if a copy fails.
  void move_back();

 private:
  Layer& model_;
  Optimizer& optimizer_;
};

/// The input of a model whose tensors are in the memory of `backend`: batch.inputs, which are
/// taken, normalised if they are pixels, and in own order.
Tensor model_input(Backend& backend, Batch& batch);

/// The training step of a model, in host memory or on a device: forward() and backward(), repeated
/// after end_pass() if a step has several passes, then exchange() and update(). On a device, work
/// is submitted to one stream, the calls do not wait for it, except that exchange() waits for the
/// step before the previous one, and the four may be captured as a graph of one pass; set_step()
/// then precedes each launch. Used from one thread.
class TrainStep {
 public:
  /// Collective. Borrows all arguments. `optimizer` updates all parameters of `model` in its order.
  /// On a device, moves both there; the destructor moves them back. Throws InvalidArgument for
  /// options that the memory does not support, and MismatchError on every rank if the models, the
  /// losses, `options`, or the options of `optimizer`, except the learning rate, differ between
  /// ranks.
  TrainStep(Context& context, Layer& model, Optimizer& optimizer, const Loss& loss,
            const DeviceTraining& training, const ExchangeOptions& options = {});
  ~TrainStep();

  /// Sets what later work uses: the number of the step, the learning rate of the optimizer, and
  /// what this rank requests.
  void set_step(std::uint64_t step, const StepRequests& requests = {});
  /// The output of the model. Takes batch.inputs.
  Tensor forward(Batch& batch, Pass pass);
  /// Computes the loss and the gradients of a training forward(); `samples` as in Loss::backward().
  /// Rows of padding add nothing to them.
  /// The exchange of a bucket starts as soon as its gradients are ready in the last pass.
  void backward(Tensor output, const Batch& batch, double samples);
  /// Adds the gradients of a pass that is not the last of its step to the sum.
  void end_pass();
  /// In host memory, blocks until the gradients and the loss of all ranks are reduced. On a device,
  /// makes later work on the stream see them.
  void exchange();
  /// Clips the gradients if clipping is on and updates the parameters. With the finite check on, a
  /// step with a non-finite gradient or loss is skipped.
  void update();
  /// Compares an output with targets, without gradients; see batch_score().
  void score(const Tensor& output, const Batch& batch);
  /// Blocks until the device is done; logs its failures.
  void finish() noexcept;

  /// The backend that computes.
  Backend& backend() { return backend_; }
  /// Null in host memory.
  DeviceBackend* device_backend() const { return device_backend_.get(); }
  /// The model, on the backend.
  Layer& model() { return trained_.model(); }
  /// The optimizer, on the backend.
  Optimizer& optimizer() { return trained_.optimizer(); }
  /// Moves model and optimizer back to the CPU, and ends an UpdateMethod. Blocks; collective with
  /// an UpdateMethod. This object must not be used any more.
  void move_back();
  /// The exchange of the gradients and the StepScalars.
  GradientSync& sync() { return sync_; }
  /// The gradients and the StepScalars, in the memory of the backend. Their values are not used
  /// between two steps. With an UpdateMethod only the StepScalars.
  std::span<const NamedTensor> exchanged_tensors() const { return gradients_.tensors(); }
  /// The options of the constructor.
  const ExchangeOptions& options() const { return options_; }
  /// The StepScalars of all ranks after exchange(), in the memory of the backend. To be multiplied
  /// by ReducedGradient::scale.
  ReducedGradient scalars() const;
  /// Null without a loss scale.
  LossScaling* loss_scaling() const { return options_.loss_scaling; }
  /// On a device: of the latest update(), in its memory; zeros without clipping and the finite
  /// check. Null in host memory, where sync().report() has the result.
  const device_kernels::GradientVerdict* verdict() const;
  /// Of the latest backward() or score() on this rank, in the memory of the backend.
  const BatchScore* batch_score() const;
  /// Null: the method of this class.
  UpdateMethod* method() const { return method_.get(); }

 private:
  Tensor loss_gradient(Tensor output, const Batch& batch, double samples);
  bool is_last_pass() const { return pass_ + 1 == options_.passes; }
  void mark(std::size_t gradient);
  void gradient_ready(std::size_t gradient, Tensor& own);
  void clear_sums();

  const ExchangeOptions options_;
  const Loss& loss_function_;
  const std::unique_ptr<DeviceBackend> device_backend_;  // null in host memory
  Backend& backend_;
  TrainedOnBackend trained_;
  GradientBlock gradients_;
  GradientSync sync_;
  // For the scalars, if the exchange of the gradients would change them.
  std::optional<GradientSync> scalar_sync_;
  std::unique_ptr<UpdateMethod> method_;
  std::unordered_map<const Parameter*, std::size_t> index_of_;
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> sums_;  // float32, of the previous passes; empty with one pass per step
  std::size_t pass_ = 0;
  Tensor score_;  // a BatchScore
  // On a device only.
  std::vector<GradientLocation> locations_;  // of the reduced gradients
  Tensor state_;                             // a StepState
  std::optional<MeasuredGradients> measured_;
};

}  // namespace horo::ops
