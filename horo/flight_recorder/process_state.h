#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace horo::observe {

/// Identifies the running kernel and this process's namespace of process ids. Two processes with
/// the same value can look each other up by pid. Returns 0 if the value cannot be determined.
std::uint64_t machine_id();

/// The fields of /proc/PID/stat that are used here.
struct ProcessStat {
  char state = '?';              ///< as in ps: R, S, D, T (stopped), t (traced), Z (zombie)
  std::uint64_t start_time = 0;  ///< in clock ticks since boot
};

/// Parses the text of /proc/PID/stat (proc(5)). Returns nullopt for any other text.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// The result of a lookup of a process.
struct ProcessLookup {
  /// False if the lookup failed, for example because no file descriptor was free.
  bool is_known = false;
  /// If the lookup succeeded, nullopt means that there is no such process.
  std::optional<ProcessStat> stat;
};
/// Looks up the process `pid` of this host.
ProcessLookup look_up_process(std::int64_t pid);

/// The start time of a process of this host, in the units of /proc/PID/stat. Returns nullopt if
/// there is no such process or the lookup failed.
std::optional<std::uint64_t> process_start_time(std::int64_t pid);

enum class ProcessState { kUnknown, kGone, kRunning, kStopped };

/// The state of the process of this host that started at `start` (0: at any time). A process that
/// has ended and was not reaped is gone. If the lookup fails, the state is unknown.
ProcessState state_of_process(std::int64_t pid, std::uint64_t start);

}  // namespace horo::observe
