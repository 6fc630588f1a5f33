#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/backend/backend.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// A trainable tensor and the gradient that backward computes for it (same shape). If the gradient
/// is empty, the tensor belongs to the model but is not trained (running statistics).
struct Parameter {
  std::string name;  ///< such as "conv1.weight"
  Tensor value;      ///< float32: what the optimizer updates
  /// Of the type of computed(). backward() writes it at its current address, which the program may
  /// have changed to another multiple of 16 bytes.
  Tensor gradient;
  /// The value in the type that the layer computes with. Empty: that is float32.
  Tensor copy{};
  /// The layer computes with float32 for every type of its backend.
  bool is_always_float32 = false;

  /// The tensor that the layer computes with.
  const Tensor& computed() const { return copy.count() > 0 ? copy : value; }
};

/// Mode and random seed of a forward pass. Random choices (dropout) depend only on the seed, the
/// step and the global index of the sample. They do not depend on the number of ranks.
struct Pass {
  bool training = false;   ///< false: inference
  std::uint64_t seed = 0;  ///< of random choices
  std::uint64_t step = 0;  ///< of training, for random choices
  /// The step in the memory of a device, which replaces `step`: a captured step reads it at each
  /// launch. Null: not used.
  const std::uint64_t* device_step = nullptr;
  /// Global index of each sample of the batch, in the memory of the backend; length: the batch's
  /// first dimension. May be empty when not training. On a device it must not change until the
  /// stream has completed the backward pass.
  std::span<const std::uint64_t> samples{};
};

/// Called with each parameter when its gradient is final for this step. On a device the kernels
/// that compute the gradient have been submitted.
using GradientReady = std::function<void(const Parameter&)>;

/// One differentiable stage of a network. The first dimension of inputs and outputs is the batch.
/// forward() stores what backward() needs; backward() uses the latest training forward(). A layer
/// may overwrite an input that no other tensor shares. Used from one thread at a time.
///
/// A layer computes with its backend, at first cpu_backend(). Inputs and gradients must be in the
/// memory, type and order of the backend; see Backend::in_own_order().
class Layer {
 public:
  virtual ~Layer() = default;
  /// Returns the output for `input`, and in training stores what backward() needs. Throws
  /// InvalidArgument if the shape of the input does not fit.
  virtual Tensor forward(Tensor input, const Pass& pass) = 0;
  /// Takes the gradient of the loss with respect to the output. Overwrites the gradients of the
  /// parameters, calls `ready` for each, and returns the gradient with respect to the input.
  virtual Tensor backward(Tensor output_gradient, const GradientReady& ready) = 0;
  /// In forward order. The pointers stay valid for the lifetime of the layer.
  virtual std::vector<Parameter*> parameters();
  /// State of the model that is not trained (running statistics), in forward order.
  virtual std::vector<Parameter*> buffers();
  /// The layers of a container, in forward order.
  virtual std::vector<Layer*> children() { return {}; }

  /// Moves the values of all parameters and buffers into the memory of `backend`, which must
  /// outlive its use here. Gradients get new memory. Blocks until the copies are complete. If a
  /// copy throws, some layers have moved.
  void move_to(Backend& backend);
  /// Like move_to(), but sets parameters and buffers to zero and does not use the old memory: for a
  /// device that has failed. `backend` must be cpu_backend().
  void reset_to(Backend& backend);
  /// The backend with which the layer computes.
  Backend& backend() const { return *backend_; }

 protected:
  Layer() = default;
  /// Pointers to the parameters of the other layer are then no longer valid.
  Layer(Layer&&) = default;
  /// As the constructor.
  Layer& operator=(Layer&&) = default;
  /// Called after the backend has changed. Must drop what belongs to the previous one.
  virtual void on_move() {}

 private:
  template <typename MoveValue>
  void move(Backend& backend, const MoveValue& move_value);

  Backend* backend_ = &cpu_backend();
};

/// Calls `ready`, if set, for each of the parameters.
void report(const std::vector<Parameter*>& parameters, const GradientReady& ready);

}  // namespace horo::ops
