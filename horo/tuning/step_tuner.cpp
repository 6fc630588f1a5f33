#include "horo/tuning/step_tuner.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "horo/base/log.h"

namespace horo::tuning {

double StepTuner::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepTuner::StepTuner(std::string name, std::vector<Axis> axes, Clock clock,
                     const TuningSearch::Options& options)
    : name_(std::move(name)),
      clock_(std::move(clock)),
      search_(std::move(axes), options),
      begun_(clock_()) {}

bool StepTuner::end_step(collectives::Collectives& collectives, int rank) {
  double seconds = clock_() - begun_;
  collectives.allreduce({DataType::kFloat64, &seconds, 1}, ReduceOp::kMax);
  const Choice tried = choice();
  const int trials = search_.trials();
  search_.note_step(seconds);
  if (rank == 0 && search_.trials() != trials)
    log_debug("autotune of gradients '{}': trial {}: {}: {:.3f} ms a step", name_, trials + 1,
              describe_choice(search_.axes(), tried), 1e3 * search_.latest_score());
  return choice() != tried;
}

std::string describe_choice(const std::vector<Axis>& axes, const Choice& choice) {
  std::string text;
  for (std::size_t a = 0; a < axes.size(); ++a)
    text += fmt::format("{}{}={}", a == 0 ? "" : " ", axes[a].name, axes[a].values[choice[a]]);
  return text;
}

}  // namespace horo::tuning
