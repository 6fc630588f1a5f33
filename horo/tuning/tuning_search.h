#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace horo::tuning {

/// Something that can be tuned, and what it is tried with.
struct Axis {
  std::string name;
  std::vector<std::size_t> values;  ///< in the order in which neighbours are tried
  std::size_t start = 0;            ///< index of the value in force before
};

/// For each axis, the index of its value.
using Choice = std::vector<std::size_t>;

/// Looks for the choice with the shortest steps: from the start, one axis after the other, uphill
/// to the neighbouring value as long as that is faster, then a duel of the best with the start, so
/// that what is found is kept only if it is faster under the same conditions: start, best, best,
/// start, of which each neighbouring pair must show the gain. A machine that grows faster or slower
/// by itself meanwhile favours the one in one pair and the other in the other. Bounded in steps.
///
/// Pure: no clock and no messages of its own. Ranks that note the same seconds make the same
/// choices.
class TuningSearch {
 public:
  struct Options {
    int steps_per_trial = 5;
    int uncounted = 2;         ///< the first of a trial; its score is the median of the others
    int most_steps = 60;       ///< over all trials
    double least_gain = 0.03;  ///< share of the start's time that must be saved
  };
  /// Throws InvalidArgument if an axis has no value, its start is none of them, or no step of a
  /// trial counts.
  TuningSearch(std::vector<Axis> axes, const Options& options);

  /// What the next step is to run with; when finished, what was found.
  const Choice& choice() const { return choice_; }
  bool is_finished() const { return phase_ == Phase::kFinished; }
  /// A step took this long: the first since choice() has changed with the choice before, since the
  /// ranks agree on a step's seconds only in the next one; the others with choice().
  void note_step(double seconds);

  const std::vector<Axis>& axes() const { return axes_; }
  int steps() const { return steps_; }
  /// How many trials have ended, and what the latest of them scored.
  int trials() const { return trials_; }
  double latest_score() const { return latest_score_; }
  /// Whether what was found is another choice than the start.
  bool has_improved() const { return is_finished() && choice_ != start_; }
  /// Their scores (of the duel the means) when both were last tried; 0 as long as they have not
  /// been.
  double start_seconds() const { return start_seconds_; }
  double best_seconds() const { return best_seconds_; }

 private:
  enum class Phase { kStart, kClimb, kDuel, kFinished };

  void end_trial(double score);
  void climb();
  bool step_to_neighbour();
  void begin_duel();
  void duel(double score);
  bool has_steps_for_another_trial() const;

  std::vector<Axis> axes_;
  Options options_;
  Phase phase_ = Phase::kStart;
  Choice start_;
  Choice best_;
  Choice choice_;
  double start_seconds_ = 0;
  double best_seconds_ = 0;
  int steps_ = 0;
  int trials_ = 0;
  double latest_score_ = 0;
  std::vector<double> trial_;  // seconds of its steps so far
  // Of the climb: the axis, and whether it goes up; it then goes down unless it has moved.
  std::size_t axis_ = 0;
  bool goes_up_ = true;
  bool has_moved_ = false;
  std::vector<double> duel_scores_;
};

}  // namespace horo::tuning
