#pragma once

#include <cstdint>

#include "ops/train/callbacks/callback.h"

namespace horo::ops {

/// Compares the replicas of the model while they train, so that an update that was not the same on
/// all ranks ends training soon after it, and not with a model that no rank has.
///
/// After every `every`-th step, each rank hashes its parameters, the states of its optimizer and
/// its counters; see Context::check_equal(), whose cost this is. A device first copies them to host
/// memory. Not compared: running statistics, and the states of a sharded optimizer or with local
/// steps, which differ. With local steps, the agreed parameters are compared. Add it after
/// callbacks that change parameters.
class DriftGuard : public TrainerCallback {
 public:
  /// Throws InvalidArgument if `every` is 0.
  explicit DriftGuard(std::uint64_t every);
  /// Collective. Throws MismatchError with the same text on all ranks: the first tensor that
  /// differs, and the ranks.
  void after_step(TrainingRun& run) override;

 private:
  const std::uint64_t every_;
};

}  // namespace horo::ops
