#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "horo/observe/rank_snapshot.h"

namespace horo::metrics {

/// What is known of one rank beside the others. Times are ns.
struct RankComparison {
  int rank = 0;
  std::string host;
  std::int64_t own = 0, blocked = 0;  ///< since it joined
  std::vector<observe::MeasuredTimes::Phase> phases;
  std::uint64_t last = 0;    ///< steps to which it came last
  std::int64_t delayed = 0;  ///< sum over those of how long after the second to last it came
  /// The phase in which it has been longest beyond the median of the ranks; empty: none.
  std::string phase;
};

/// How much later than the earliest rank a rank came to the steps of a plan.
struct PlanSkew {
  std::string plan, process_set;
  int rank = 0;
  std::uint64_t steps = 0;       ///< compared
  std::int64_t total = 0;        ///< ns, sum over them
  std::int64_t latest_mean = 0;  ///< ns, of the latest interval in which there were any
};

/// Compares when the ranks came to the steps of their plans, by what all of them tell of their
/// latest steps. No clock is needed: since no rank's exchange ends before the last rank has come,
/// and all end at about the same time, a rank came as much later than another as it waited less.
/// What that is wrong by is how differently the ranks leave an exchange. Steps of which not all
/// ranks tell at the same time, as there are too many between two looks, are left out.
class ArrivalSkew {
 public:
  /// Of all ranks that are known; those that have told nothing of themselves are passed over.
  void note(std::span<const observe::RankSnapshot> ranks);
  /// Begins another interval for PlanSkew::latest_mean.
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
  struct Teller {
    int rank = 0;
    const observe::MeasuredTimes::Plan* plan = nullptr;
    std::int64_t wait_in(std::uint64_t step) const {
      return plan->waits[plan->waits.size() - (plan->steps - step)];
    }
  };

  void compare(const PlanKey& key, std::span<const Teller> tellers);
  void note_step(const PlanKey& key, std::span<const Teller> tellers, std::uint64_t step);

  std::map<int, RankComparison> ranks_;
  std::map<PlanKey, std::uint64_t> next_step_;
  std::map<std::pair<PlanKey, int>, Arrivals> arrivals_;
};

/// Sets RankComparison::phase of each. Pure.
void name_phases(std::span<RankComparison> ranks);

}  // namespace horo::metrics
