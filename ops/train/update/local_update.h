#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ops/train/update/local_steps.h"
#include "ops/train/update/outcome_exchange.h"
#include "ops/train/update/outer_fragment.h"
#include "ops/train/update/update_method.h"

namespace horo::ops {

struct LocalUpdateOptions {
  LocalSteps steps{};
  OuterExchange exchange{};
  std::optional<double> clip_norm{};  ///< of the gradients of a rank
  /// A rank does not update with values that are not finite, and no rank with average changes that
  /// are not.
  bool check_finite = false;
  /// After this many steps all ranks have equal parameters; 0: only after finish().
  std::uint64_t last_step = 0;
};

/// Each rank updates its parameters with its own gradients, and exchanges the changes of a fragment
/// once in several steps; see LocalSteps. Steps between exchanges send nothing: their outcomes
/// become known when the next exchange ends.
///
/// At the last step, fragments whose exchange is due change by the outer optimizer, and the others
/// become the average over the ranks; in finish() all do.
class LocalUpdate : public UpdateMethod {
 public:
  /// See make_update_method(). Throws InvalidArgument for options out of range.
  LocalUpdate(Context& context, Optimizer& optimizer, const StepScalars& scalars,
              const LocalUpdateOptions& options);

  void begin_step(std::uint64_t done) override;
  void ready(std::size_t /*index*/) override {}
  void exchange() override;
  void update() override;
  std::vector<StepOutcome> outcomes(bool all) override;
  void show_agreed() override;
  void finish() override;
  CompressionFigures compression() override;
  MethodState state() override;
  void restored() override;

 private:
  void update_own();
  bool is_due(std::size_t fragment) const;
  void launch(std::size_t fragment, std::uint64_t merge_after);
  void merge(std::size_t fragment, bool is_outer_update, float mixing);
  void synchronise();
  void show_own();

  Context& context_;
  Optimizer& optimizer_;
  const StepScalars& scalars_;
  const LocalUpdateOptions options_;
  std::deque<OuterFragment> fragments_;
  OutcomeExchange exchange_;
  std::vector<std::uint64_t> launches_;  // of exchange_, for each fragment in flight; or 0
  std::vector<StepOutcome> outcomes_;
  std::string rejection_;         // of a fragment, for the next outcome
  std::uint64_t done_ = 0;        // steps, with the current one
  bool has_updated_ = false;      // own parameters in the current step
  bool is_agreed_ = true;         // own values are the agreed ones, on all ranks
  bool is_agreed_shown_ = false;  // in the parameters of the model
};

}  // namespace horo::ops
