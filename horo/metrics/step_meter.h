#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_record.h"

namespace horo::metrics {

/// Measures the steps of one plan. A default one measures nothing, at the cost of a branch for each
/// call. Used by one thread at a time.
class StepMeter {
 public:
  StepMeter() = default;
  /// `meter` may be null: nothing is measured.
  StepMeter(std::shared_ptr<RankMeter> meter, const PlanLabel& label);

  bool is_on() const { return meter_ != nullptr; }
  RankMeter* rank_meter() const { return meter_.get(); }

  void begin_exchange() {
    if (is_on()) exchange_began_ = observe::flight_clock();
  }
  void end_exchange(std::uint64_t bytes) {
    if (is_on()) note_exchange(bytes);
  }
  /// The step that has begun will not be complete.
  void drop_step() { current_ = {}; }
  /// The step is complete, and `wait`, at the end of which this is called, was its own.
  /// `wire_bytes`: that it has sent to other ranks, where that is counted.
  void end_step(const Blocked& wait, std::optional<std::uint64_t> wire_bytes);

 private:
  void note_exchange(std::uint64_t bytes);

  std::shared_ptr<RankMeter> meter_;
  std::size_t plan_ = 0;
  StepRecord current_;
  std::int64_t exchange_began_ = 0;
  // At the end of the step before.
  std::int64_t ended_ = 0;
  RankMeter::Reading reading_;
};

}  // namespace horo::metrics
