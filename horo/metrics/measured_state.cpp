#include "horo/metrics/measured_state.h"

#include <utility>

namespace horo::metrics {

MeasuredState::MeasuredState(std::unique_ptr<observe::StateSource> source,
                             std::shared_ptr<const RankMeter> meter)
    : source_(std::move(source)), meter_(std::move(meter)) {}

observe::RankSnapshot MeasuredState::snapshot() {
  observe::RankSnapshot snapshot = source_->snapshot();
  snapshot.times = meter_->measured(observe::flight_clock());
  return snapshot;
}

}  // namespace horo::metrics
