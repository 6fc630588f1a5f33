#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_record.h"

namespace horo::metrics {

/// Measures the steps of one plan. A default-constructed object measures nothing. Used by one
/// thread at a time.
class StepMeter {
 public:
  StepMeter() = default;
  /// If `meter` is null, nothing is measured.
  StepMeter(std::shared_ptr<RankMeter> meter, const PlanLabel& label);

  bool is_on() const { return meter_ != nullptr; }
  RankMeter* rank_meter() const { return meter_.get(); }

  void begin_exchange() {
    if (is_on()) exchange_began_ = observe::flight_clock();
  }
  void end_exchange(std::uint64_t bytes) {
    if (is_on()) record_exchange(bytes);
  }
  /// Discards the exchanges of the current step, which has failed.
  void drop_step() { current_ = {}; }
  /// Ends the current step. `wait` is the final wait of the step, which ends now. `wire_bytes` is
  /// the number of bytes that this rank sent to other ranks in the step, if these bytes were
  /// counted.
  void end_step(const Blocked& wait, std::optional<std::uint64_t> wire_bytes);

 private:
  void record_exchange(std::uint64_t bytes);

  std::shared_ptr<RankMeter> meter_;
  std::size_t plan_ = 0;
  StepRecord current_;
  std::int64_t exchange_began_ = 0;
  // The time and the reading at the end of the previous step, or at construction.
  std::int64_t ended_ = 0;
  RankMeter::Reading reading_;
};

}  // namespace horo::metrics
