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
      begun_(clock_()) {
  // The step before the first: like the last one of each trial it counts in the next, where it is
  // passed over.
  search_.note_step(0);
}

bool StepTuner::meet(collectives::Collectives& collectives) {
  if (!own_) return false;
  slowest_ = std::exchange(own_, std::nullopt);
  collectives.allreduce({DataType::kFloat64, &*slowest_, 1}, ReduceOp::kMax);
  return true;
}

bool StepTuner::end_step(int rank, bool counts) {
  if (counts) own_ = clock_() - begun_;
  const auto seconds = std::exchange(slowest_, std::nullopt);
  if (!seconds) return false;
  const Choice tried = choice();
  const int trials = search_.trials();
  search_.note_step(*seconds);
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
