#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Where an exchange has left the gradient of a parameter: in the memory of the device of the
/// optimizer.
struct GradientLocation {
  const void* data = nullptr;
  DataType type = DataType::kFloat32;
  float scale = 1;  ///< see device_kernels::GradientUse
};

/// The gradients of a step and how they are used. The pointers are null or in the memory of a
/// device, so that no host thread waits for the values.
struct StepGradients {
  /// One for each parameter. Empty: Parameter::gradient.
  std::span<const GradientLocation> locations{};
  const float* factor = nullptr;         ///< of all gradients
  const std::uint32_t* skip = nullptr;   ///< if not 0, nothing is updated or counted
  const float* learning_rate = nullptr;  ///< replaces learning_rate(), also in a captured step
};

/// Updates the parameters of a model with their gradients. Ranks with equal values, state and
/// gradients stay bit-identical. Used from one thread at a time.
class Optimizer {
 public:
  /// State per parameter that is kept between steps.
  struct State {
    std::string_view name;
    std::span<Tensor> tensors;  ///< of parameters(), in order, and of the same shapes
  };

  /// Borrows the parameters: they must outlive this.
  explicit Optimizer(std::vector<Parameter*> parameters) : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter with its gradient, and the copy that its layer computes with. Does not
  /// change the gradients. On a device, the work is submitted to the stream and nothing blocks.
  /// Throws InvalidArgument on the CPU unless `gradients` is empty.
  void step(const StepGradients& gradients = {});
  /// Throws InvalidArgument unless the rate is finite and at least 0.
  virtual void set_learning_rate(float learning_rate) = 0;
  virtual float learning_rate() const = 0;
  /// "AdamW with beta1 0.9, ...": the options that must be equal on all ranks. The learning rate is
  /// not among them, since a schedule may set it.
  virtual std::string describe() const = 0;
  std::span<Parameter* const> parameters() const { return parameters_; }

  // With the values of the parameters, these make up a checkpoint and must be equal on all ranks.
  virtual std::vector<State> states() = 0;
  /// Integer state, such as the number of steps. Not up to date while the optimizer is on a device.
  virtual std::span<std::int64_t> counters() { return {}; }

  /// Moves the states into the memory of `backend`, to which the model must have moved before the
  /// next step. As Layer::move_to().
  void move_to(Backend& backend);
  /// As Layer::reset_to().
  void reset_to(Backend& backend);
  Backend& backend() const { return *backend_; }

 protected:
  /// Updates parameters in host memory.
  virtual void update_on_host() = 0;
  /// Submits the update of parameters in the memory of the device to `stream`. Does not block.
  virtual void update_on_device(device::Stream& stream, const StepGradients& gradients) = 0;
  /// Called before and after the states move from and to a device: for other state.
  virtual void leave_device() {}
  virtual void enter_device() {}

 private:
  std::vector<Parameter*> parameters_;
  Backend* backend_ = &cpu_backend();
};

}  // namespace horo::ops
