#include "horo/metrics/rank_meter.h"

#include <algorithm>
#include <utility>

namespace horo::metrics {
namespace {

constexpr const char* kOtherPlans = "(others)";

}  // namespace

RankMeter::RankMeter(std::int64_t now) : begun_(now), progress_(now) {
  records_.reserve(kMostRecords);
}

std::uint64_t RankMeter::begin_phase(std::string_view name) {
  const std::int64_t now = observe::flight_clock();
  const std::scoped_lock lock(mutex_);
  return phases_.begin(name, now);
}

void RankMeter::end_phase(std::uint64_t number) {
  const std::int64_t now = observe::flight_clock();
  const std::scoped_lock lock(mutex_);
  phases_.end(number, now);
}

// Waits of several threads may overlap. Time counts as blocked while at least one thread waits.
std::int64_t RankMeter::begin_wait() {
  const std::int64_t now = observe::flight_clock();
  const std::scoped_lock lock(mutex_);
  if (waiting_++ == 0) waiting_since_ = now;
  return now;
}

void RankMeter::end_wait(std::int64_t now) {
  const std::scoped_lock lock(mutex_);
  if (--waiting_ == 0) blocked_ += now - waiting_since_;
}

std::int64_t RankMeter::blocked_until(std::int64_t now) const {
  return blocked_ + (waiting_ > 0 ? now - waiting_since_ : 0);
}

// A plan that is created again continues the sums of the earlier plan, because a counter on the
// page must not decrease.
std::size_t RankMeter::plan(const PlanLabel& label) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(plans_, [&](const Plan& plan) {
    return plan.label.name == label.name && plan.label.process_set == label.process_set;
  });
  if (found != plans_.end()) return static_cast<std::size_t>(found - plans_.begin());
  if (plans_.size() == kMostPlans) return kMostPlans - 1;
  plans_.push_back({label, {}, {}});
  // The last entry collects all further plans, which bounds the size of the page.
  if (plans_.size() == kMostPlans) plans_.back().label = {kOtherPlans, "", label.ranks};
  return plans_.size() - 1;
}

RankMeter::Reading RankMeter::read(std::int64_t now) const {
  const std::scoped_lock lock(mutex_);
  return {blocked_until(now), phases_.totals(now)};
}

// measured() reports the waits in plan.waits, which is a ring buffer of the latest steps.
void RankMeter::add(StepRecord record) {
  const std::scoped_lock lock(mutex_);
  Plan& plan = plans_[record.plan];
  record.step = plan.sums.steps;
  plan.waits[record.step % kReportedSteps] = record.exposed;
  plan.sums.add(record);
  phases_in_steps_ = phases_.totals(record.ended);
  if (records_.size() < kMostRecords)
    records_.push_back(record);
  else
    ++lost_;
}

// Swaps two vectors with room for kMostRecords, so that neither this call nor add() allocates under
// the lock.
void RankMeter::drain(std::vector<StepRecord>& records) {
  records.clear();
  records.reserve(kMostRecords);
  const std::scoped_lock lock(mutex_);
  records_.swap(records);
}

RankMeter::Snapshot RankMeter::snapshot(std::int64_t now) const {
  const std::scoped_lock lock(mutex_);
  const std::int64_t blocked = blocked_until(now);
  return {std::max<std::int64_t>(now - begun_ - blocked, 0),
          blocked,
          phases_.names(),
          phases_.totals(now),
          phases_in_steps_,
          plans_,
          lost_};
}

// The numbers of plans and waits are bounded, because the watchdog sends the result in every
// interval.
observe::MeasuredTimes RankMeter::measured(std::int64_t now) const {
  const Snapshot snapshot = this->snapshot(now);
  const bool has_steps =
      std::ranges::any_of(snapshot.plans, [](const Plan& plan) { return plan.sums.steps > 0; });
  const PhaseNanoseconds& phases = has_steps ? snapshot.phases_in_steps : snapshot.phases;
  observe::MeasuredTimes times{snapshot.own, snapshot.blocked, {}, {}};
  for (std::size_t i = 0; i < snapshot.phase_names.size(); ++i)
    times.phases.push_back({snapshot.phase_names[i], phases[i]});
  for (const Plan& plan : snapshot.plans) {
    if (times.plans.size() == kReportedPlans) break;
    auto& report = times.plans.emplace_back();
    report.name = plan.label.name;
    report.process_set = plan.label.process_set;
    report.ranks = plan.label.ranks;
    report.steps = plan.sums.steps;
    for (std::uint64_t step = report.steps - std::min<std::uint64_t>(report.steps, kReportedSteps);
         step < report.steps; ++step)
      report.waits.push_back(plan.waits[step % kReportedSteps]);
  }
  return times;
}

MeasuredState::MeasuredState(std::unique_ptr<observe::SnapshotProvider> source,
                             std::shared_ptr<const RankMeter> meter)
    : source_(std::move(source)), meter_(std::move(meter)) {}

observe::RankSnapshot MeasuredState::snapshot() {
  observe::RankSnapshot snapshot = source_->snapshot();
  snapshot.times = meter_->measured(observe::flight_clock());
  return snapshot;
}

}  // namespace horo::metrics
