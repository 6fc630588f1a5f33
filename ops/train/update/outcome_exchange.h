#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/train/step/gradient_block.h"
#include "ops/train/step/step_outcome.h"

namespace horo::ops {

/// A step of one rank on its own.
struct OwnOutcome {
  StepScalars scalars;
  bool was_clipped = false;
  bool was_skipped = false;  ///< a value was not finite
};

/// Makes the outcomes of steps that the ranks take on their own equal on all ranks: averages of
/// several steps with one small allreduce. All ranks call the functions at the same steps. Used
/// from one thread.
class OutcomeExchange {
 public:
  /// Borrows the context.
  explicit OutcomeExchange(Context& context) : context_(context) {}

  /// The outcome of the next step of this rank.
  void add(const OwnOutcome& outcome);
  /// Starts the exchange of the outcomes that were added since the previous launch. Does not block.
  /// Returns the number of launches so far. Collective.
  std::uint64_t launch();
  /// The outcomes of the first `launches` launches, without those that have been returned. Blocks
  /// until they are known. Collective.
  std::vector<StepOutcome> collect(std::uint64_t launches);

 private:
  struct Exchange {
    std::vector<float> values;
    Handle operation;
  };

  Context& context_;
  std::vector<float> added_;
  std::deque<Exchange> in_flight_;
  std::uint64_t launches_ = 0;
};

}  // namespace horo::ops
