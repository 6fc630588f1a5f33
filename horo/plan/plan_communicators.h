#pragma once

#include <memory>
#include <utility>

#include "collectives/communicator.h"
#include "horo/base/step_report.h"
#include "horo/coordinator/plan_waits.h"

namespace horo::plan {

/// The communicator of a plan. During a tuning search that compares two algorithms, the plan also
/// has a spare communicator, which uses the other algorithm. No other plan or operation uses these
/// communicators, so the exchanges of the plan do not depend on the order of other operations. If
/// the gradients are in device memory, only the hooks of the plan use the communicator. Used by one
/// thread at a time. All ranks must call swap() and drop_spare() between the same steps.
class PlanCommunicators {
 public:
  /// `waits` has the wait policies that both communicators use. `spare` may be null.
  PlanCommunicators(std::unique_ptr<coordinator::PlanWaits> waits,
                    std::unique_ptr<collectives::Communicator> current,
                    std::unique_ptr<collectives::Communicator> spare)
      : waits_(std::move(waits)), current_(std::move(current)), spare_(std::move(spare)) {}

  coordinator::PlanWaits& waits() { return *waits_; }
  collectives::Communicator& current() { return *current_; }

  /// Makes the spare communicator current, and the current communicator spare. Requires a spare
  /// communicator.
  void swap() { current_.swap(spare_); }
  /// Frees the spare communicator, if it exists.
  void drop_spare() {
    if (spare_ == nullptr) return;
    dropped_ += spare_->wire_report();
    spare_.reset();
  }
  /// Returns the sum of the reports of the current, the spare and the dropped communicator.
  WireReport wire_report() const {
    WireReport report = dropped_;
    if (spare_ != nullptr) report += spare_->wire_report();
    return report += current_->wire_report();
  }

 private:
  std::unique_ptr<coordinator::PlanWaits> waits_;  // must outlive the communicators
  std::unique_ptr<collectives::Communicator> current_;
  std::unique_ptr<collectives::Communicator> spare_;
  WireReport dropped_;
};

}  // namespace horo::plan
