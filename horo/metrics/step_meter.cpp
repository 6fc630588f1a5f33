#include "horo/metrics/step_meter.h"

#include <algorithm>
#include <utility>

namespace horo::metrics {

StepMeter::StepMeter(std::shared_ptr<RankMeter> meter, const PlanLabel& label)
    : meter_(std::move(meter)) {
  if (!is_on()) return;
  plan_ = meter_->plan(label);
  ended_ = observe::flight_clock();
  reading_ = meter_->read(ended_);
}

void StepMeter::record_exchange(std::uint64_t bytes) {
  const std::int64_t now = observe::flight_clock();
  current_.exchange += now - exchange_began_;
  current_.bytes += bytes;
  ++current_.buckets;
  meter_->record_progress(now);
}

// A step lasts from the end of the previous step until now, so no time between two steps is missing
// from the sums.
void StepMeter::end_step(const Blocked& wait, std::optional<std::uint64_t> wire_bytes) {
  if (!is_on()) return;
  const std::int64_t now = observe::flight_clock();
  const RankMeter::Reading reading = meter_->read(now);
  StepRecord record = std::exchange(current_, {});
  record.plan = plan_;
  record.ended = now;
  record.length = now - ended_;
  record.blocked = std::min(reading.blocked - reading_.blocked, record.length);
  record.exposed = now - wait.since();
  for (std::size_t i = 0; i < reading.phases.size(); ++i)
    record.phases[i] = reading.phases[i] - reading_.phases[i];
  record.wire_bytes = wire_bytes;
  ended_ = now;
  reading_ = reading;
  meter_->add(record);
}

}  // namespace horo::metrics
