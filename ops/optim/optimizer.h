#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/nn/layer.h"
#include "ops/optim/parameter_rules.h"

namespace horo::ops {

/// Where an exchange has left the gradient of a parameter: in the memory of the device of the
/// optimizer.
struct GradientLocation {
  const void* data = nullptr;          ///< address of the first element
  DataType type = DataType::kFloat32;  ///< of the elements
  float scale = 1;                     ///< see device_kernels::GradientUse
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

/// A run of elements of a parameter, in host memory, that is a parameter of its own.
struct ParameterPart {
  std::size_t whole = 0;           ///< index in Optimizer::parameters()
  std::size_t first = 0;           ///< element of the whole; the part has the shape {count}
  Parameter* parameter = nullptr;  ///< borrowed
};

/// Updates the parameters of a model with their gradients. Ranks with equal values, state and
/// gradients stay bit-identical. Used from one thread at a time.
class Optimizer {
 public:
  /// State per parameter that is kept between steps.
  struct State {
    std::string_view name;  ///< such as "momentum"
    /// Of parameters(), in order. Each has the shape of its parameter, or is empty if the optimizer
    /// keeps no such state for it.
    std::span<Tensor> tensors;
  };

  /// Borrows the parameters: they must outlive this.
  explicit Optimizer(std::vector<Parameter*> parameters);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter with its gradient, and the copy that its layer computes with. Does not
  /// change the gradients. On a device, the work is submitted to the stream and nothing blocks.
  /// Throws InvalidArgument on the CPU unless `gradients` is empty.
  void step(const StepGradients& gradients = {});
  /// Throws InvalidArgument unless the rate is finite and at least 0.
  virtual void set_learning_rate(float learning_rate) = 0;
  /// The current rate.
  virtual float learning_rate() const = 0;
  /// Gives parameters rates of their own, in place of earlier rules. Must not be called while a
  /// TrainStep uses this. Throws as factors_of() does and then changes nothing.
  void set_rules(std::vector<ParameterRule> rules);
  /// "AdamW with beta1 0.9, ...": the options and rules that must be equal on all ranks. The
  /// learning rate is not among them, since a schedule may set it.
  std::string describe() const { return describe_options() + ops::describe(rules_); }
  /// The parameters that step() updates.
  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Whether the update of a value depends on other values of its parameter, such as their norm. If
  /// not, ranks can update parts of a parameter.
  virtual bool needs_whole_parameters() const { return false; }

  // With the values of the parameters, these make up a checkpoint and must be equal on all ranks.
  /// The states of all parameters.
  std::vector<State> states();
  /// Integer state, such as the number of steps. While the optimizer is on a device, as of the
  /// latest update_counters().
  virtual std::span<std::int64_t> counters() { return {}; }
  /// Copies the counters from a device. Blocks until the submitted steps have been executed.
  virtual void update_counters() {}
  /// The size of all states.
  std::size_t state_bytes() const;

  /// Replaces the parameters by parts of them, of which it keeps the states and the rates, until
  /// unite(). For ranks that each update a part of a model. In host memory. Throws InvalidArgument
  /// if needs_whole_parameters().
  void divide(std::span<const ParameterPart> parts);
  /// Ends divide(). `states`: for each of states(), a tensor for each whole parameter.
  void unite(std::vector<std::vector<Tensor>> states);
  /// Whether divide() is in effect.
  bool is_divided() const { return !wholes_.parameters.empty(); }
  /// After divide(): the parameters before it. Otherwise parameters().
  std::span<Parameter* const> whole_parameters() const {
    return wholes_.parameters.empty() ? parameters_ : wholes_.parameters;
  }

  /// Moves the states into the memory of `backend`, to which the model must have moved before the
  /// next step. As Layer::move_to().
  void move_to(Backend& backend);
  /// As Layer::reset_to().
  void reset_to(Backend& backend);
  /// The backend in whose memory the states are.
  Backend& backend() const { return *backend_; }

 protected:
  /// Selects parameters by index.
  using Selection = std::function<bool(std::size_t)>;

  /// Adds a state of zeros, in host memory, and returns its index.
  std::size_t add_state(std::string_view name);
  /// The tensors of state `index`, one for each parameter.
  std::span<Tensor> state(std::size_t index) { return states_[index].tensors; }
  /// The number of states.
  std::size_t state_count() const { return states_.size(); }
  /// The factors of set_rules(), one for each parameter.
  std::span<const RateFactors> factors() const { return factors_; }

  /// The options in one line, without the learning rate; see describe().
  virtual std::string describe_options() const = 0;
  /// Updates parameters in host memory.
  virtual void update_on_host() = 0;
  /// Submits the update of parameters in the memory of the device to `stream`. Does not block.
  virtual void update_on_device(device::Stream& stream, const StepGradients& gradients) = 0;
  /// Called before and after the states move from and to a device: for other state.
  virtual void leave_device() {}
  /// See leave_device().
  virtual void enter_device() {}

 private:
  struct OwnedState {
    std::string_view name;
    std::vector<Tensor> tensors;
  };

  /// What divide() replaces; empty before it.
  struct Wholes {
    std::vector<Parameter*> parameters;
    std::vector<RateFactors> factors;
  };

  std::vector<Parameter*> parameters_;
  std::vector<ParameterRule> rules_;
  std::vector<RateFactors> factors_;  // one for each parameter
  Wholes wholes_;
  std::vector<OwnedState> states_;
  Backend* backend_ = &cpu_backend();
};

/// Throws InvalidArgument, with the name of the optimizer, unless the rate is finite and at least
/// 0.
void check_learning_rate(std::string_view optimizer, float learning_rate);

}  // namespace horo::ops
