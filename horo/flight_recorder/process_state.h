#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace horo::observe {

/// Identifies the running kernel and this process's pid namespace. Two processes for which this
/// function returns the same value can look each other up by pid, unless the value is 0. Returns 0
/// if the identity cannot be determined.
std::uint64_t machine_id();

/// Some fields of /proc/PID/stat.
struct ProcessStat {
  char state = '?';              ///< as in ps: R, S, D, T (stopped), t (traced), Z (zombie)
  std::uint64_t start_time = 0;  ///< in clock ticks since boot
};

/// Parses the text of /proc/PID/stat (see proc(5)). Returns nullopt if `text` does not have this
/// format.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// The result of look_up_process().
struct ProcessLookup {
  /// False if the lookup failed, for example because no file descriptor was free.
  bool is_known = false;
  /// If `is_known` is true, nullopt means that there is no such process.
  std::optional<ProcessStat> stat;
};
/// Looks up process `pid` in this process's pid namespace. The same holds for the functions below.
ProcessLookup look_up_process(std::int64_t pid);

/// Returns the start time of a process, in the units of /proc/PID/stat. Returns nullopt if there is
/// no such process or the lookup failed.
std::optional<std::uint64_t> process_start_time(std::int64_t pid);

enum class ProcessState { kUnknown, kGone, kRunning, kStopped };

/// Returns the state of process `pid`. If that process did not start at `start`, the state is
/// kGone; if `start` is 0, any start time is accepted. A process that has ended but was not reaped
/// is also kGone. If the lookup fails, the state is kUnknown.
ProcessState state_of_process(std::int64_t pid, std::uint64_t start);

}  // namespace horo::observe
