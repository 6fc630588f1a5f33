#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::metrics {

/// The maximum number of entries for phases. The first kMostPhases - 1 names have an entry each,
/// and all further names share the last entry, kOtherPhases.
inline constexpr std::size_t kMostPhases = 16;
inline constexpr std::string_view kOtherPhases = "(others)";

/// Nanoseconds per phase, in the order of PhaseTimes::names(). Further elements are 0.
using PhaseNanoseconds = std::array<std::int64_t, kMostPhases>;

/// The time that a rank has spent in each of its phases and pauses. While phases are nested, time
/// counts only for the innermost phase, so the sum never exceeds the elapsed time. Phases may end
/// in any order. If an outer phase ends first, the inner phases stay open. Used by one thread at a
/// time. All times are in ns of the same clock.
class PhaseTimes {
 public:
  /// Starts a phase. Returns the number of the phase, which is never 0.
  std::uint64_t begin(std::string_view name, std::int64_t now);
  /// Ends phase `number`, if that phase is open.
  void end(std::uint64_t number, std::int64_t now);

  /// Returns the times up to `now`, including the time of open phases.
  PhaseNanoseconds totals(std::int64_t now) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::size_t index_of(std::string_view name);
  void accumulate(std::int64_t now);

  std::vector<std::string> names_;
  struct Open {
    std::uint64_t number = 0;
    std::size_t index = 0;
  };
  std::vector<Open> open_;  // innermost last
  std::uint64_t begun_ = 0;
  PhaseNanoseconds totals_{};
  std::int64_t accumulated_until_ = 0;  // time until which totals_ is complete
};

/// The measurements of one complete step of a plan. Times are in ns. `ended` is a time of
/// flight_clock().
struct StepRecord {
  std::size_t plan = 0;    ///< result of RankMeter::plan()
  std::uint64_t step = 0;  ///< set by RankMeter::add()
  std::int64_t ended = 0;
  /// Time since the end of the previous step. For the first step, time since registration.
  std::int64_t length = 0;
  /// The part of `length` in which at least one thread of the program waited inside horo.
  std::int64_t blocked = 0;
  /// The part of `length` in the final wait(), exchange() or join() of the step.
  std::int64_t exposed = 0;
  std::int64_t exchange = 0;  ///< sum of the exchange times of the buckets
  std::uint32_t buckets = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> wire_bytes;  ///< sent to other ranks, if counted
  PhaseNanoseconds phases{};

  std::int64_t own() const { return length - blocked; }
};

/// Sums over the complete steps of a plan.
struct StepSums {
  std::uint64_t steps = 0;
  std::int64_t length = 0, blocked = 0, exposed = 0, exchange = 0;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> wire_bytes;

  void add(const StepRecord& step);
};

/// Identifies a plan in lines and on pages.
struct PlanLabel {
  std::string name;
  std::string process_set;  ///< empty for a plan of all ranks
  int ranks = 1;

  /// Returns 2 (n-1)/n for n = `ranks`: the ratio of busbw to algbw of an allreduce, as defined by
  /// nccl-tests.
  double bus_factor() const { return 2.0 * (ranks - 1) / ranks; }
};

/// Returns the rate of `bytes` in `time` ns, in bytes per second. Returns 0 if `time` is not
/// positive.
inline double rate_of(std::uint64_t bytes, std::int64_t time) {
  return time > 0 ? static_cast<double>(bytes) * 1e9 / static_cast<double>(time) : 0;
}

inline double seconds_of(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

}  // namespace horo::metrics
