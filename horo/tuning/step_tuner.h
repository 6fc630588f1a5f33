#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/tuning/tuning_search.h"

namespace horo::tuning {

/// Runs a TuningSearch over the steps of a job: measures each step on this rank and takes that of
/// the slowest rank on all of them, so that all make the same choices. Costs an allreduce of 8
/// bytes per step while it lives. Used by one thread at a time.
class StepTuner {
 public:
  /// Seconds since some moment that stays.
  using Clock = std::function<double()>;
  static double steady_seconds();

  /// `name`: of the plan, for the log. Throws as TuningSearch does.
  StepTuner(std::string name, std::vector<Axis> axes, Clock clock = steady_seconds,
            const TuningSearch::Options& options = {});

  /// The next step begins: what choice() says is in force.
  void begin_step() { begun_ = clock_(); }
  /// The step has ended; says whether choice() is another now. Collective. Rank 0 logs each trial
  /// at level debug.
  bool end_step(collectives::Collectives& collectives, int rank);

  const Choice& choice() const { return search_.choice(); }
  const TuningSearch& search() const { return search_; }

 private:
  std::string name_;
  Clock clock_;
  TuningSearch search_;
  double begun_;
};

/// "bucket_bytes=8388608 ring_segment_bytes=262144"
std::string describe_choice(const std::vector<Axis>& axes, const Choice& choice);

}  // namespace horo::tuning
