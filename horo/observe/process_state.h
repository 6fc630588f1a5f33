#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace horo::observe {

/// A number for the processes that this one can see: of the running kernel and its namespace of
/// process ids. 0: unknown.
std::uint64_t this_machine();

/// What /proc says of a process.
struct ProcessStat {
  char state = '?';              ///< as ps shows it: R, S, D, T (stopped), t (traced), Z (zombie)
  std::uint64_t start_time = 0;  ///< in clock ticks since the machine started
};

/// Reads the text of /proc/PID/stat (proc(5)); nullopt if it is none.
std::optional<ProcessStat> parse_process_stat(std::string_view text);
/// Of the process `pid` of this host; nullopt if there is no such process.
std::optional<ProcessStat> read_process_stat(std::int64_t pid);

/// When the process of this host began, in the units of /proc/PID/stat; none: there is no such
/// process.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

enum class ProcessState { kGone, kRunning, kStopped };

/// What became of the process of this host that began at `start` (0: at any time). One that has
/// ended and was not reaped is gone.
ProcessState state_of_process(std::int64_t pid, std::uint64_t start);

}  // namespace horo::observe
