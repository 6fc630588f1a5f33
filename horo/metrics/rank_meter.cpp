#include "horo/metrics/rank_meter.h"

#include <algorithm>

namespace horo::metrics {
namespace {

constexpr const char* kOtherPlans = "(others)";

}  // namespace

void StepSums::add(const StepRecord& step) {
  ++steps;
  length += step.length;
  blocked += step.blocked;
  exposed += step.exposed;
  exchange += step.exchange;
  bytes += step.bytes;
  if (step.wire_bytes) wire_bytes = wire_bytes.value_or(0) + *step.wire_bytes;
}

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

std::size_t RankMeter::plan(const PlanLabel& label) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(plans_, [&](const Plan& plan) {
    return plan.label.name == label.name && plan.label.process_set == label.process_set;
  });
  if (found != plans_.end()) return static_cast<std::size_t>(found - plans_.begin());
  if (plans_.size() == kMostPlans) return kMostPlans - 1;
  plans_.push_back({label, {}, {}});
  if (plans_.size() == kMostPlans) plans_.back().label = {kOtherPlans, "", label.ranks};
  return plans_.size() - 1;
}

RankMeter::Reading RankMeter::read(std::int64_t now) const {
  const std::scoped_lock lock(mutex_);
  return {blocked_until(now), phases_.totals(now)};
}

void RankMeter::add(StepRecord record) {
  const std::scoped_lock lock(mutex_);
  Plan& plan = plans_[record.plan];
  record.step = plan.sums.steps;
  plan.waits[record.step % kToldSteps] = record.exposed;
  plan.sums.add(record);
  phases_in_steps_ = phases_.totals(record.ended);
  if (records_.size() < kMostRecords)
    records_.push_back(record);
  else
    ++lost_;
}

void RankMeter::take(std::vector<StepRecord>& records) {
  records.clear();
  records.reserve(kMostRecords);
  const std::scoped_lock lock(mutex_);
  records_.swap(records);
}

RankMeter::Picture RankMeter::picture(std::int64_t now) const {
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

observe::MeasuredTimes RankMeter::measured(std::int64_t now) const {
  const Picture picture = this->picture(now);
  const bool has_steps =
      std::ranges::any_of(picture.plans, [](const Plan& plan) { return plan.sums.steps > 0; });
  const PhaseNanoseconds& phases = has_steps ? picture.phases_in_steps : picture.phases;
  observe::MeasuredTimes times{picture.own, picture.blocked, {}, {}};
  for (std::size_t i = 0; i < picture.phase_names.size(); ++i)
    times.phases.push_back({picture.phase_names[i], phases[i]});
  for (const Plan& plan : picture.plans) {
    if (times.plans.size() == kToldPlans) break;
    auto& told = times.plans.emplace_back();
    told.name = plan.label.name;
    told.process_set = plan.label.process_set;
    told.ranks = plan.label.ranks;
    told.steps = plan.sums.steps;
    for (std::uint64_t step = told.steps - std::min<std::uint64_t>(told.steps, kToldSteps);
         step < told.steps; ++step)
      told.waits.push_back(plan.waits[step % kToldSteps]);
  }
  return times;
}

}  // namespace horo::metrics
