#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "horo/metrics/phase_times.h"

namespace horo::metrics {

/// What a rank knows of one complete step of a plan. Times are ns, `ended` of flight_clock().
struct StepRecord {
  std::size_t plan = 0;  ///< RankMeter::plan()
  std::uint64_t step = 0;
  std::int64_t ended = 0;
  std::int64_t length = 0;    ///< since the step before ended; of the first, since registration
  std::int64_t blocked = 0;   ///< of it, in which a thread of the program waited inside horo
  std::int64_t exposed = 0;   ///< of it, in wait(), exchange() or join() of this plan at the end
  std::int64_t exchange = 0;  ///< exchanges of its buckets, one after the other
  std::uint32_t buckets = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> wire_bytes;  ///< sent to other ranks, where it is counted
  PhaseNanoseconds phases{};

  std::int64_t own() const { return length - blocked; }
};

/// Sums over the steps of a plan so far.
struct StepSums {
  std::uint64_t steps = 0;
  std::int64_t length = 0, blocked = 0, exposed = 0, exchange = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> wire_bytes;

  void add(const StepRecord& step);
};

/// Which plan, as records and pages speak of it.
struct PlanLabel {
  std::string name;
  std::string process_set;  ///< empty: all ranks
  int ranks = 1;

  /// What an allreduce of all ranks moves for each byte, as nccl-tests has it: 2 (n-1)/n.
  double bus_factor() const { return 2.0 * (ranks - 1) / ranks; }
};

/// `bytes` in `time` ns, in bytes per second; 0 if no time has passed.
inline double rate_of(std::uint64_t bytes, std::int64_t time) {
  return time > 0 ? static_cast<double>(bytes) * 1e9 / static_cast<double>(time) : 0;
}

inline double seconds_of(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

}  // namespace horo::metrics
