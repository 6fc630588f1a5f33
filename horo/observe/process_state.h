#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace horo::observe {

/// A number for the processes that this one can see: of the running kernel and its namespace of
/// process ids. 0: unknown.
std::uint64_t this_machine();

/// When the process of this host began, in the units of /proc/PID/stat; none: there is no such
/// process.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

enum class ProcessState { kGone, kRunning, kStopped };

/// What became of the process of this host that began at `start` (0: at any time). One that has
/// ended and was not reaped is gone.
ProcessState state_of_process(std::int64_t pid, std::uint64_t start);

}  // namespace horo::observe
