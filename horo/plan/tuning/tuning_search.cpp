#include "horo/plan/tuning/tuning_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "horo/base/error.h"

namespace horo::plan {
namespace {

constexpr int kTrialsOfDuel = 4;

// With an even number of values, returns the larger of the two middle values.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

TuningSearch::TuningSearch(std::vector<Axis> axes, const Options& options)
    : axes_(std::move(axes)), options_(options) {
  HORO_CHECK(options.uncounted >= 0 && options.steps_per_trial > options.uncounted,
             "steps_per_trial must be greater than uncounted, which must be at least 0");
  for (const Axis& axis : axes_) {
    HORO_CHECK(axis.start < axis.values.size(),
               fmt::format("the start value of {} is not among its values", axis.name));
    start_.push_back(axis.start);
  }
  choice_ = best_ = start_;
}

void TuningSearch::note_step(double seconds) {
  if (is_finished()) return;
  ++steps_;
  trial_.push_back(seconds);
  if (std::cmp_less(trial_.size(), options_.steps_per_trial)) return;
  trial_.erase(trial_.begin(), trial_.begin() + options_.uncounted);
  end_trial(median(std::exchange(trial_, {})));
}

// In the climb, a faster value becomes part of the best choice, and the search continues in the
// same direction. If the first value of higher index is not faster, the search tries values of
// lower index. In all other cases, a value that is not faster ends the climb on this axis.
void TuningSearch::end_trial(double score) {
  ++trials_;
  latest_score_ = score;
  switch (stage_) {
    case Stage::kStart:
      start_seconds_ = best_seconds_ = score;
      stage_ = Stage::kClimb;
      return climb();
    case Stage::kClimb:
      if (score < best_seconds_) {
        best_ = choice_;
        best_seconds_ = score;
        has_moved_ = true;
      } else if (goes_up_ && !has_moved_) {
        goes_up_ = false;
      } else {
        ++axis_;
        goes_up_ = true;
        has_moved_ = false;
      }
      return climb();
    case Stage::kDuel:
      return duel(score);
    case Stage::kFinished:
      return;
  }
}

// Selects the next choice to try, or calls begin_duel(). A trial starts only if the steps of the
// final comparison still fit into the limit afterwards.
void TuningSearch::climb() {
  while (axis_ < axes_.size() && has_steps_for_another_trial()) {
    if (step_to_neighbour()) return;
    if (goes_up_ && !has_moved_) {
      goes_up_ = false;
      continue;
    }
    ++axis_;
    goes_up_ = true;
    has_moved_ = false;
  }
  begin_duel();
}

bool TuningSearch::step_to_neighbour() {
  choice_ = best_;
  std::size_t& index = choice_[axis_];
  if (goes_up_ ? index + 1 == axes_[axis_].values.size() : index == 0) return false;
  goes_up_ ? ++index : --index;
  return true;
}

// Begins the final comparison, or ends the search if no other choice was faster than the start
// choice. The smallest of many noisy scores is usually too small. So the comparison measures both
// choices again.
void TuningSearch::begin_duel() {
  choice_ = start_;
  stage_ = best_ == start_ ? Stage::kFinished : Stage::kDuel;
}

// Trials 0 and 3 run the start choice, and trials 1 and 2 run the best choice. Trial 1 must be
// faster than trial 0, and trial 2 must be faster than trial 3, each by more than least_gain. So a
// steady change of the speed of the machine cannot by itself make the best choice the result.
void TuningSearch::duel(double score) {
  duel_scores_.push_back(score);
  choice_ = duel_scores_.size() < 3 ? best_ : start_;
  if (duel_scores_.size() < kTrialsOfDuel) return;
  start_seconds_ = std::midpoint(duel_scores_[0], duel_scores_[3]);
  best_seconds_ = std::midpoint(duel_scores_[1], duel_scores_[2]);
  const auto gains = [this](double best, double start) {
    return best < (1 - options_.least_gain) * start;
  };
  if (gains(duel_scores_[1], duel_scores_[0]) && gains(duel_scores_[2], duel_scores_[3]))
    choice_ = best_;
  stage_ = Stage::kFinished;
}

bool TuningSearch::has_steps_for_another_trial() const {
  return steps_ + (1 + kTrialsOfDuel) * options_.steps_per_trial <= options_.most_steps;
}

}  // namespace horo::plan
