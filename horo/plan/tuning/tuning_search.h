#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace horo::plan {

/// A parameter that can be tuned, with the values to try.
struct Axis {
  std::string name;
  std::vector<std::size_t> values;  ///< neighbouring values are adjacent
  std::size_t start = 0;            ///< index of the untuned value
};

/// The index of the chosen value, for each axis.
using Choice = std::vector<std::size_t>;

/// Searches for the choice with the shortest steps, by coordinate-wise hill climbing. From the
/// start choice, it changes one axis after the other to neighbouring values as long as the steps
/// become faster. If another choice was faster than the start choice, a final comparison runs the
/// start choice and the best choice under the same conditions, in the order start, best, best,
/// start. The best choice is the result only if it shows the gain in the first two trials and in
/// the last two trials of the comparison. If the machine itself becomes faster or slower meanwhile,
/// one of these pairs favours the start choice and the other pair favours the best choice. The
/// number of steps is bounded.
///
/// Pure: uses no clock and sends no messages. Ranks that record the same times make the same
/// choices.
class TuningSearch {
 public:
  struct Options {
    int steps_per_trial = 5;
    /// The number of first steps of a trial that are ignored. The score of a trial is the median of
    /// the times of the other steps.
    int uncounted = 2;
    int most_steps = 60;       ///< maximum number of steps in all trials
    double least_gain = 0.03;  ///< minimum gain, as a fraction of the time of the start choice
  };
  /// Throws InvalidArgument if the start of an axis is not one of its values, or if
  /// `options.uncounted` is negative or leaves no step of a trial.
  TuningSearch(std::vector<Axis> axes, const Options& options);

  /// The choice for the next step. After the search, the result of the search.
  const Choice& choice() const { return choice_; }
  bool is_finished() const { return stage_ == Stage::kFinished; }
  /// Records the time of a step. The first call after a change of choice() has the time of a step
  /// with the previous choice, because ranks agree on the time of a step only in the next step.
  void note_step(double seconds);

  const std::vector<Axis>& axes() const { return axes_; }
  int steps() const { return steps_; }
  /// The number of complete trials, and the score of the latest one in seconds.
  int trials() const { return trials_; }
  double latest_score() const { return latest_score_; }
  /// Whether the result differs from the start choice.
  bool has_improved() const { return is_finished() && choice_ != start_; }
  /// The scores of the start choice and of the best choice in their latest trials. After the final
  /// comparison, each is the mean of two trials. Both are 0 before the first trial.
  double start_seconds() const { return start_seconds_; }
  double best_seconds() const { return best_seconds_; }

 private:
  enum class Stage { kStart, kClimb, kDuel, kFinished };

  void end_trial(double score);
  void climb();
  bool step_to_neighbour();
  void begin_duel();
  void duel(double score);
  bool has_steps_for_another_trial() const;

  std::vector<Axis> axes_;
  Options options_;
  Stage stage_ = Stage::kStart;
  Choice start_;
  Choice best_;
  Choice choice_;
  double start_seconds_ = 0;
  double best_seconds_ = 0;
  int steps_ = 0;
  int trials_ = 0;
  double latest_score_ = 0;
  std::vector<double> trial_;  // seconds of the steps of the current trial
  // State of the climb: the axis and the direction. An axis is climbed up first, and then down
  // unless a higher value was faster.
  std::size_t axis_ = 0;
  bool goes_up_ = true;
  bool has_moved_ = false;
  std::vector<double> duel_scores_;
};

}  // namespace horo::plan
