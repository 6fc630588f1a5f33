#include "horo/metrics/arrival_skew.h"

#include <algorithm>
#include <limits>

namespace horo::metrics {
namespace {

using observe::MeasuredTimes;
using observe::RankSnapshot;

std::int64_t time_in(const RankComparison& rank, const std::string& phase) {
  const auto found = std::ranges::find(rank.phases, phase, &MeasuredTimes::PhaseTime::name);
  return found == rank.phases.end() ? 0 : found->time;
}

// Returns the lower median. For two ranks, this is the smaller value.
std::int64_t median_in(std::span<const RankComparison> ranks, const std::string& phase) {
  std::vector<std::int64_t> times;
  for (const RankComparison& rank : ranks) times.push_back(time_in(rank, phase));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

bool is_comparable(const MeasuredTimes::Plan& plan) {
  return plan.ranks > 1 && !plan.waits.empty() && plan.waits.size() <= plan.steps;
}

}  // namespace

void name_phases(std::span<RankComparison> ranks) {
  for (RankComparison& rank : ranks) {
    std::int64_t most = 0;
    rank.phase.clear();
    for (const MeasuredTimes::PhaseTime& phase : rank.phases) {
      const std::int64_t beyond = phase.time - median_in(ranks, phase.name);
      if (beyond <= most) continue;
      most = beyond;
      rank.phase = phase.name;
    }
  }
}

// A plan is compared only if the snapshots of all of its ranks contain it. The snapshots may have
// different ages.
void ArrivalSkew::update(std::span<const RankSnapshot> ranks) {
  std::map<PlanKey, std::vector<PlanReport>> reports;
  for (const RankSnapshot& snapshot : ranks) {
    if (snapshot.times.own == 0 && snapshot.times.blocked == 0) continue;
    RankComparison& known = ranks_[snapshot.rank];
    known.rank = snapshot.rank;
    known.host = snapshot.host;
    known.own = snapshot.times.own;
    known.blocked = snapshot.times.blocked;
    known.phases = snapshot.times.phases;
    for (const MeasuredTimes::Plan& plan : snapshot.times.plans)
      if (is_comparable(plan))
        reports[{plan.process_set, plan.name}].push_back({snapshot.rank, &plan});
  }
  for (const auto& [key, of_plan] : reports)
    if (of_plan.size() == static_cast<std::size_t>(of_plan.front().plan->ranks))
      compare(key, of_plan);
}

// Compares each step at most once. Begins with the first step that was not compared before and
// whose waits all reports contain. Ends with the last step that all ranks have completed.
void ArrivalSkew::compare(const PlanKey& key, std::span<const PlanReport> reports) {
  std::uint64_t& next = next_step_[key];
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
  for (const PlanReport& report : reports) {
    next = std::max(next, report.plan->steps - report.plan->waits.size());
    end = std::min(end, report.plan->steps);
  }
  for (; next < end; ++next) add_step(key, reports, next);
}

// The rank with the shortest wait arrived last. This rank delayed the others by the time from the
// second to last arrival to its own arrival.
void ArrivalSkew::add_step(const PlanKey& key, std::span<const PlanReport> reports,
                           std::uint64_t step) {
  std::int64_t longest = 0;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), second = shortest;
  int last = 0;
  for (const PlanReport& report : reports) {
    const std::int64_t wait = report.wait_in(step);
    longest = std::max(longest, wait);
    if (wait < shortest) {
      second = shortest;
      shortest = wait;
      last = report.rank;
    } else {
      second = std::min(second, wait);
    }
  }
  ++ranks_[last].last;
  ranks_[last].delayed += second - shortest;
  for (const PlanReport& report : reports) {
    Arrivals& arrivals = arrivals_[{key, report.rank}];
    for (Sum* sum : {&arrivals.total, &arrivals.interval}) {
      ++sum->steps;
      sum->time += longest - report.wait_in(step);
    }
    arrivals.latest_mean =
        arrivals.interval.time / static_cast<std::int64_t>(arrivals.interval.steps);
  }
}

void ArrivalSkew::begin_interval() {
  for (auto& [key, arrivals] : arrivals_) arrivals.interval = {};
}

std::vector<RankComparison> ArrivalSkew::ranks() const {
  std::vector<RankComparison> ranks;
  for (const auto& [number, rank] : ranks_) ranks.push_back(rank);
  name_phases(ranks);
  return ranks;
}

std::vector<PlanSkew> ArrivalSkew::skews() const {
  std::vector<PlanSkew> skews;
  for (const auto& [key, arrivals] : arrivals_)
    skews.push_back({key.first.second, key.first.first, key.second, arrivals.total.steps,
                     arrivals.total.time, arrivals.latest_mean});
  return skews;
}

}  // namespace horo::metrics
