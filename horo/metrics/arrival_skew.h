#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::metrics {

/// The measurements of one rank, and a comparison with the other ranks. Times are in ns.
struct RankComparison {
  int rank = 0;
  std::string host;
  std::int64_t own = 0, blocked = 0;  ///< since the rank joined the job
  std::vector<observe::MeasuredTimes::PhaseTime> phases;
  std::uint64_t last = 0;  ///< number of compared steps in which this rank arrived last
  /// The time from the second to last arrival to the arrival of this rank, summed over the steps in
  /// which this rank arrived last.
  std::int64_t delayed = 0;
  /// The phase in which this rank's time exceeds the median of all ranks by the most. Empty if no
  /// time of this rank exceeds the median.
  std::string phase;
};

/// How much later than the earliest rank a rank arrived in the steps of a plan.
struct PlanSkew {
  std::string plan, process_set;
  int rank = 0;
  std::uint64_t steps = 0;       ///< number of compared steps
  std::int64_t total = 0;        ///< in ns, summed over the steps
  std::int64_t latest_mean = 0;  ///< in ns, mean over the latest interval with compared steps
};

/// Compares when the ranks arrived in the steps of their plans. A rank arrives in a step when it
/// begins the final wait of the step, in GradientSync::wait(), exchange() or join(). The comparison
/// uses the durations of these waits, which all ranks report for their latest steps, so the clocks
/// of the ranks need not agree.
///
/// The exchange of a step ends on all ranks at about the same time. Therefore the difference
/// between the waits of two ranks is about the difference between their arrivals. The error is the
/// difference between the times at which the two ranks leave the exchange. A rank that arrives
/// after the end of the exchange counts as if it had arrived at that end.
///
/// A step is skipped if the latest steps of some rank do not contain it, for example because too
/// many steps lie between two snapshots.
class ArrivalSkew {
 public:
  /// Adds the latest snapshots of the ranks. Skips ranks without measurements.
  void update(std::span<const observe::RankSnapshot> ranks);
  /// Starts the next interval for PlanSkew::latest_mean.
  void begin_interval();

  std::vector<RankComparison> ranks() const;
  std::vector<PlanSkew> skews() const;

 private:
  using PlanKey = std::pair<std::string, std::string>;  // process set, name
  struct Sum {
    std::uint64_t steps = 0;
    std::int64_t time = 0;
  };
  struct Arrivals {
    Sum total, interval;
    std::int64_t latest_mean = 0;
  };
  struct PlanReport {
    int rank = 0;
    const observe::MeasuredTimes::Plan* plan = nullptr;
    std::int64_t wait_in(std::uint64_t step) const {
      return plan->waits[plan->waits.size() - (plan->steps - step)];
    }
  };

  void compare(const PlanKey& key, std::span<const PlanReport> reports);
  void add_step(const PlanKey& key, std::span<const PlanReport> reports, std::uint64_t step);

  std::map<int, RankComparison> ranks_;
  std::map<PlanKey, std::uint64_t> next_step_;
  std::map<std::pair<PlanKey, int>, Arrivals> arrivals_;
};

/// Sets RankComparison::phase of each rank.
void name_phases(std::span<RankComparison> ranks);

}  // namespace horo::metrics
