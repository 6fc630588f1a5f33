#pragma once

#include <span>
#include <vector>

#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// The latest steps of all ranks, which can be replayed with other durations of phases: what a step
/// would take without a cost. A synchronous step ends its exchange on all ranks at the same time,
/// so the mean duration follows from the phases alone:
///
///   sum over steps s of  max over ranks r of (after(r, s-1) + before(r, s)) + communication(s)
///
/// `before`: the phases from the end of the previous step to the exchange; `after`: the phases
/// after it. communication(s) is the exposed communication of the rank that arrives last in step s;
/// the other ranks wait for that rank as long as theirs exceeds it.
///
/// With local steps, the ranks wait for each other only in the steps that end an exchange. The
/// maximum then is that of the sums since the previous exchange. With overlap there are no such
/// steps: the duration is that of the slowest rank, with its exposed communication.
class StepReplay {
 public:
  /// Takes the steps of `job`. Each rank must have the same number of them.
  explicit StepReplay(const JobCosts& job);

  std::size_t rank_count() const { return ranks_.size(); }
  std::size_t step_count() const { return communication_.size(); }
  /// Mean duration of a step in ms; 0 without steps.
  double step_ms() const;
  /// Means of the phases of a rank, in ms. kExposedCommunication is the communication without the
  /// straggler wait, the same for all ranks.
  StepTimes mean(std::size_t rank) const;
  /// Mean time in which the exchange of a rank waited for other ranks, in ms.
  double straggler_wait(std::size_t rank) const;
  double communication_ms() const;
  /// Share of the steps of a rank in which a phase took longer than `least_ms`.
  double share_of_steps(std::size_t rank, StepPhase phase, double least_ms) const;

  /// Multiplies a phase of a rank by `factor` in every step.
  void scale(std::size_t rank, StepPhase phase, double factor);
  /// Multiplies the communication of every step.
  void scale_communication(double factor);
  /// Replaces forward and backward of a rank by the median of the other ranks in every step.
  void compute_as_others(std::size_t rank);
  /// Replaces forward and backward of all ranks by their mean in every step.
  void balance_compute();
  /// Mean over the steps of the longest forward and backward of any rank; with local steps, of the
  /// longest sum between two exchanges.
  double longest_compute_ms() const;

 private:
  static double compute_of(const StepTimes& step) {
    return step[StepPhase::kForward] + step[StepPhase::kBackward];
  }
  static void set_compute(StepTimes& step, double milliseconds);

  std::vector<std::vector<StepTimes>> ranks_;  // [rank][step]
  std::vector<double> communication_;          // [step]
  std::vector<bool> is_exchanged_;             // [step]: the ranks wait for each other
};

}  // namespace horo::ops
