#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/environment.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/topology.h"
#include "horo/plan/step_hook.h"
#include "horo/plan/tuning/plan_axes.h"
#include "horo/plan/tuning/tuning_file.h"
#include "horo/plan/tuning/tuning_search.h"

namespace horo::plan {

/// Runs a TuningSearch over the steps of a plan. Each rank measures its steps. The ranks agree on
/// the time of the slowest rank, so they make the same choices. They agree on the time of a step in
/// the exchange of the next step, so the end of a step does not wait for other ranks. Costs an
/// allreduce of 8 bytes per step. Used by one thread at a time.
class StepTuner {
 public:
  /// Seconds since a fixed point in time.
  using Clock = std::function<double()>;
  static double steady_seconds();

  /// `name` is the name of the plan, for the log. Throws as TuningSearch does.
  StepTuner(std::string name, std::vector<Axis> axes, Clock clock = steady_seconds,
            const TuningSearch::Options& options = {});

  /// Starts the clock of the next step, which uses choice().
  void begin_step() { begun_ = clock_(); }
  /// Agrees on the time of the previous step, in the exchange of the current step. Returns false
  /// and sends nothing if there is no previous step or if end_step() did not count it. Collective.
  bool agree(collectives::Collectives& collectives);
  /// Ends a step. `counts` states whether the step has exchanged gradients, and must be equal on
  /// all ranks. Returns whether choice() has changed. Rank 0 logs each trial at level debug. `rank`
  /// is the number of this rank.
  bool end_step(int rank, bool counts);

  const Choice& choice() const { return search_.choice(); }
  const TuningSearch& search() const { return search_; }

 private:
  std::string name_;
  Clock clock_;
  TuningSearch search_;
  double begun_;
  std::optional<double> own_;      // seconds of the latest step on this rank, until agree()
  std::optional<double> slowest_;  // seconds of the previous step on the slowest rank
};

/// Returns a text such as "bucket_bytes=8388608 ring_segment_bytes=262144".
std::string describe_choice(const std::vector<Axis>& axes, const Choice& choice);

/// Tunes one plan. Uses an earlier result if there is one. Otherwise, searches in the first steps,
/// applies each choice to the plan, and stores the result. Without options.autotune, or if there is
/// nothing to tune, choice() is the result of untuned(), and the hook does nothing. Used by one
/// thread at a time.
class PlanTuning : public StepHook {
 public:
  /// If options.autotune is unset, nothing is tuned. `settings` and `topology` must outlive this
  /// object. `found` is found() of the PlanTuning that this object replaces, or empty if there is
  /// none. `found` must be equal on all ranks.
  PlanTuning(std::string name, std::span<const NamedTensor> gradients,
             const GradientSyncOptions& options, const Settings& settings, const Topology& topology,
             std::string found = {});

  /// Uses an earlier result from found() or from the file that HORO_AUTOTUNE names, which rank 0
  /// reads. If there is no earlier result, starts a search. Collective. The ranks must have agreed
  /// on gradients and options. Throws InvalidArgument on every rank if the file cannot be read or
  /// has a malformed line.
  void begin(collectives::Collectives& collectives);

  const PlanChoice& choice() const { return choice_; }
  bool is_searching() const { return tuner_.has_value(); }
  /// Returns choice() with the other algorithm that the search compares. Returns nullopt if there
  /// is no search or if the search does not compare algorithms. Must be called before the first
  /// step.
  std::optional<PlanChoice> other_way() const;

  /// Agrees on the time of the previous step.
  void begin_exchange(StepExchange& step) override;
  /// Records the time of the step and applies the next choice to the plan. With options.reorder,
  /// the search starts after the second step, when the order of the gradients is final.
  void end_step(BucketScheduler& scheduler, const StepReport& report) override;

  /// Records the time of a step. choice() may change. For `counts`, see StepTuner::end_step().
  /// Requires is_searching(). end_step() calls this function before it changes the plan.
  void note_step(bool counts);
  /// Starts the clock of the next step, or ends the search if it is complete. The caller must apply
  /// choice() to the plan first. At the end of a search, rank 0 reports the result and appends it
  /// to the file that HORO_AUTOTUNE names, if any. Does nothing without a search.
  void begin_step();

  /// The lines that the constructor received. If the search of this object is complete, a line with
  /// its result follows (tuning_line()).
  const std::string& found() const { return found_; }

 private:
  std::string find_in_file(collectives::Collectives& collectives) const;
  void take(const Choice& choice);
  void finish();
  void report(const std::string& result) const;
  void keep(const std::string& line) const;

  std::string name_;
  GradientSyncOptions options_;
  const Settings& settings_;
  const Topology& topology_;
  PlanChoice untuned_;
  PlanChoice choice_;
  int steps_before_search_;
  std::vector<Axis> axes_;  // empty without options.autotune and if there is nothing to tune
  TuningKey key_;
  std::string found_;
  std::optional<StepTuner> tuner_;  // set during a search
};

}  // namespace horo::plan
