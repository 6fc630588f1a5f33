#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace horo::plan {

/// A parameter that can be tuned, with the values to try.
struct Axis {
  std::string name;
  std::vector<std::size_t> values;  ///< the search moves between adjacent values
  std::size_t start = 0;            ///< index of the untuned value
};

/// For each axis, the index of the chosen value.
using Choice = std::vector<std::size_t>;

/// Searches for the choice with the shortest steps, by coordinate-wise hill climbing. A trial runs
/// one choice for a fixed number of steps. From the start choice, which has the untuned values, the
/// search changes one axis after the other to adjacent values as long as the steps become shorter.
///
/// If another choice was faster than the start choice, a final comparison of four trials runs the
/// start choice, the best choice, the best choice and the start choice. The best choice is the
/// result only if it is faster by more than Options::least_gain in the first two trials and in the
/// last two trials. If the speed of the machine changes steadily during the comparison, one of
/// these pairs favours the start choice and the other pair favours the best choice.
///
/// The search uses no clock and sends no messages. Ranks that record the same times make the same
/// choices.
class TuningSearch {
 public:
  struct Options {
    int steps_per_trial = 5;
    /// The number of first steps of a trial that are ignored. The score of a trial is the median of
    /// the times of the other steps.
    int uncounted = 2;
    int most_steps = 60;       ///< limit for the steps of all trials; the first trial always runs
    double least_gain = 0.03;  ///< minimum gain, as a fraction of the time of the start choice
  };
  /// Throws InvalidArgument if Axis::start is not an index of Axis::values, if options.uncounted is
  /// negative, or if options.steps_per_trial is not greater than options.uncounted.
  TuningSearch(std::vector<Axis> axes, const Options& options);

  /// The choice for the next step. After the search, the result of the search.
  const Choice& choice() const { return choice_; }
  bool is_finished() const { return stage_ == Stage::kFinished; }
  /// Records the time of a step. In the first call after a change of choice(), StepTuner passes the
  /// time of a step with the previous choice, because ranks agree on the time of a step only in the
  /// next step.
  void note_step(double seconds);

  const std::vector<Axis>& axes() const { return axes_; }
  int steps() const { return steps_; }
  /// The number of complete trials.
  int trials() const { return trials_; }
  /// The score of the latest complete trial, in seconds. 0 before the first trial is complete.
  double latest_score() const { return latest_score_; }
  /// Whether the result differs from the start choice.
  bool has_improved() const { return is_finished() && choice_ != start_; }
  /// start_seconds() is the score of the start choice, and best_seconds() is that of the best
  /// choice. Each is the score of one trial before the end of the final comparison, and the mean of
  /// two trials after it. Both are 0 before the first trial is complete.
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
  // The state of the climb: the axis, the direction, and whether a value of the axis was faster. On
  // each axis, the search tries values of higher index first. It tries values of lower index only
  // if none of higher index was faster.
  std::size_t axis_ = 0;
  bool goes_up_ = true;
  bool has_moved_ = false;
  std::vector<double> duel_scores_;
};

}  // namespace horo::plan
