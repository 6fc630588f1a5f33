#pragma once

#include <cstddef>
#include <vector>

namespace horo::ops {

/// How the learning rate changes after the warm-up.
enum class Decay {
  kConstant,  ///< stays at base_rate
  kStep,      ///< is multiplied by step_factor at every milestone
  kCosine,    ///< falls from base_rate to final_rate along half a cosine, until total_steps
  /// Falls from base_rate to final_rate with the power `power` of the share of steps that are left,
  /// until total_steps. Power 1 is linear; 2 is usual with LARS.
  kPolynomial,
};

/// The learning rate as a function of the step.
struct LearningRateSchedule {
  Decay decay = Decay::kConstant;  ///< after the warm-up
  double base_rate = 0.01;         ///< after the warm-up
  /// Steps at the start during which the rate rises linearly from start_rate to base_rate: gradual
  /// warm-up, usual when linear_scaling() has enlarged base_rate. Source: Goyal et al., "Accurate,
  /// large minibatch SGD" (2017).
  std::size_t warm_up_steps = 0;
  double start_rate = 0.0;  ///< at step 0 of a warm-up
  /// kStep: step numbers, ascending.
  std::vector<std::size_t> milestones;
  double step_factor = 0.1;  ///< kStep: at each milestone
  /// kCosine and kPolynomial: length of the run, warm-up included; the rate stays at final_rate
  /// afterwards.
  std::size_t total_steps = 0;
  double final_rate = 0.0;  ///< kCosine and kPolynomial: at the end
  double power = 1.0;       ///< kPolynomial; above 0
};

/// The rate for step 0, 1, 2, ... It depends on nothing else, so a resumed run continues with the
/// same rates. Throws InvalidArgument if kCosine or kPolynomial have no steps after the warm-up, or
/// if the power is not above 0.
double learning_rate_at(const LearningRateSchedule& schedule, std::size_t step);

/// The linear scaling rule: `rate`, which suits batches of `base_batch` samples, for batches of
/// `batch` samples. Source: as for warm_up_steps. Throws InvalidArgument for a batch of 0.
double linear_scaling(double rate, std::size_t base_batch, std::size_t batch);

}  // namespace horo::ops
