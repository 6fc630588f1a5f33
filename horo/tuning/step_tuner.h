#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/tuning/tuning_search.h"

namespace horo::tuning {

/// Runs a TuningSearch over the steps of a job: measures each step on this rank and takes that of
/// the slowest rank on all of them, so that all make the same choices. What a step took, the ranks
/// tell each other in the exchange of the next one, so that the end of a step waits for nobody.
/// Costs an allreduce of 8 bytes per step while it lives. Used by one thread at a time.
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
  /// In the exchange of a step: agrees on what the step before took; says whether there is such a
  /// step. Collective, with a message only if there is.
  bool meet(collectives::Collectives& collectives);
  /// The step has ended; `counts`: it has exchanged something, on all ranks. Says whether choice()
  /// is another now. Rank 0 logs each trial at level debug.
  bool end_step(int rank, bool counts);

  const Choice& choice() const { return search_.choice(); }
  const TuningSearch& search() const { return search_; }

 private:
  std::string name_;
  Clock clock_;
  TuningSearch search_;
  double begun_;
  std::optional<double> own_;      // of the step before, on this rank
  std::optional<double> slowest_;  // the same, on all
};

/// "bucket_bytes=8388608 ring_segment_bytes=262144"
std::string describe_choice(const std::vector<Axis>& axes, const Choice& choice);

}  // namespace horo::tuning
