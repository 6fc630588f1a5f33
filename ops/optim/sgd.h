#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ops/optim/optimizer.h"

namespace horo::ops {

namespace device_kernels {
struct SgdTensor;
}
template <typename Entry>
struct UpdateGroup;

/// The options of Sgd.
struct SgdOptions {
  float learning_rate = 0.01f;  ///< at least 0
  float momentum = 0.0f;        ///< in [0, 1); 0.9 is usual
  float weight_decay = 0.0f;    ///< L2: this times the value is added to the gradient
  bool nesterov = false;        ///< use Nesterov momentum; needs a momentum above 0
};

/// Stochastic gradient descent. Per step and value, in one pass over memory:
///   g = gradient + weight_decay * value;  m = momentum * m + g;
///   value -= learning_rate * (nesterov ? g + momentum * m : m).
class Sgd : public Optimizer {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  Sgd(std::vector<Parameter*> parameters, const SgdOptions& options);

  void set_learning_rate(float learning_rate) override;
  float learning_rate() const override { return options_.learning_rate; }
  /// The options of the constructor.
  const SgdOptions& options() const { return options_; }
  /// m of every parameter, in the order of the constructor and with the same shapes; the state
  /// "momentum". Empty without momentum.
  std::span<Tensor> momentum_buffers() {
    return state_count() == 0 ? std::span<Tensor>() : state(0);
  }

 protected:
  std::string describe_options() const override;
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;

  /// Updates parameter `index` in host memory.
  void update_on_host(std::size_t index);
  /// Updates the selected parameters on a device.
  void update_on_device(device::Stream& stream, const StepGradients& gradients,
                        const Selection& is_selected);
  /// The selected parameters, for launches on a device.
  std::vector<UpdateGroup<device_kernels::SgdTensor>> device_groups(const StepGradients& gradients,
                                                                    const Selection& is_selected);

 private:
  SgdOptions options_;
};

}  // namespace horo::ops
