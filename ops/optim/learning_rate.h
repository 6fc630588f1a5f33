#pragma once

#include <cstddef>
#include <vector>

namespace horo::ops {

enum class Decay {
  kConstant,  ///< stays at base_rate
  kStep,      ///< is multiplied by step_factor at every milestone
  kCosine,    ///< falls from base_rate to final_rate along half a cosine, until total_steps
};

/// The learning rate as a function of the step.
struct LearningRateSchedule {
  Decay decay = Decay::kConstant;
  double base_rate = 0.01;
  /// Steps at the start during which the rate rises linearly from start_rate to base_rate. Usual
  /// when the base rate was multiplied by the number of ranks.
  std::size_t warm_up_steps = 0;
  double start_rate = 0.0;
  /// kStep: step numbers, ascending.
  std::vector<std::size_t> milestones;
  double step_factor = 0.1;
  /// kCosine: length of the run, warm-up included; the rate stays at final_rate afterwards.
  std::size_t total_steps = 0;
  double final_rate = 0.0;
};

/// The rate for step 0, 1, 2, ... It depends on nothing else, so a resumed run continues with the
/// same rates. Throws InvalidArgument if kCosine has no steps after the warm-up.
double learning_rate_at(const LearningRateSchedule& schedule, std::size_t step);

}  // namespace horo::ops
