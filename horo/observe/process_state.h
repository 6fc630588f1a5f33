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

/// What a look for a process found.
struct ProcessLook {
  bool is_known = false;  ///< false: it could not be seen, as without a descriptor to spare
  std::optional<ProcessStat> stat;  ///< none, if it is known: there is no such process
};
/// Of the process `pid` of this host.
ProcessLook look_for_process(std::int64_t pid);

/// When the process of this host began, in the units of /proc/PID/stat; none: there is no such
/// process, or it cannot be seen.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

enum class ProcessState { kUnknown, kGone, kRunning, kStopped };

/// What became of the process of this host that began at `start` (0: at any time). One that has
/// ended and was not reaped is gone; one that cannot be looked up just now is unknown.
ProcessState state_of_process(std::int64_t pid, std::uint64_t start);

}  // namespace horo::observe
