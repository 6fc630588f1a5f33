#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/environment.h"
#include "horo/base/topology.h"
#include "horo/gradient_sync_options.h"
#include "horo/tuning/plan_axes.h"
#include "horo/tuning/step_tuner.h"
#include "horo/tuning/tuning_file.h"

namespace horo::tuning {

/// The tuning of one plan: what it begins with, the search in its first steps, and what is kept of
/// it. Without options.autotune, and where nothing can be tuned, choice() stays what untuned()
/// says. Used by one thread at a time.
class PlanTuning {
 public:
  /// `options.autotune` is set. `settings` and `topology` outlive this. `found`: lines that this
  /// job has found before, equal on all ranks.
  PlanTuning(std::string name, std::span<const NamedTensor> gradients,
             const GradientSyncOptions& options, const Settings& settings, const Topology& topology,
             std::string found = {});

  /// Looks for what was found before, in this job or in HORO_AUTOTUNE's file, which rank 0 reads; a
  /// search begins if there is nothing. Collective, once the ranks have agreed on gradients and
  /// options. Throws InvalidArgument, on every rank, if the file cannot be read or has a line that
  /// is none.
  void begin(collectives::Collectives& collectives);

  const PlanChoice& choice() const { return choice_; }
  bool is_searching() const { return tuner_.has_value(); }
  /// While it searches: the choice with the other algorithm that it may change to, if any.
  std::optional<PlanChoice> other_way() const;

  /// choice() is in force, and the next step begins; or the search, if it is complete, ends: rank 0
  /// says what was found and adds it to the file. Nothing without a search.
  void begin_step();
  /// While it searches, like end_step(). See StepTuner.
  bool meet(collectives::Collectives& collectives) { return tuner_->meet(collectives); }
  /// A step has ended; `counts`: it has exchanged something. choice() may be another now.
  void end_step(bool counts);

  /// Lines of what this job has found so far.
  const std::string& found() const { return found_; }

 private:
  std::string find_in_file(collectives::Collectives& collectives) const;
  void take(const Choice& choice);
  void finish();
  void keep(const std::string& line) const;

  std::string name_;
  GradientSyncOptions options_;
  const Settings& settings_;
  const Topology& topology_;
  PlanChoice untuned_;
  PlanChoice choice_;
  std::vector<Axis> axes_;  // empty: nothing to tune
  TuningKey key_;
  std::string found_;
  std::optional<StepTuner> tuner_;
};

}  // namespace horo::tuning
