#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "horo/observe/process_state.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// What one rank sees of another of its node.
struct Sighting {
  bool has_left = false;               ///< it said so itself, before it went
  bool is_visible = false;             ///< its process could be looked up by its number here
  std::optional<ProcessStat> process;  ///< if visible: what was found under the number
  std::uint64_t start_time = 0;        ///< of the rank's own process, by its own word
  std::chrono::nanoseconds silence{};  ///< since its heartbeat was last seen to advance
};

/// Pure. A process that is gone is dead once its heartbeat is a second old. A process that cannot
/// be looked up is known by its heartbeat alone, and is called silent after `silent_after`, never
/// dead. One that can be is silent only after ten times as long: on a busy machine a heartbeat may
/// be late.
Liveness judge_liveness(const Sighting& sighting, std::chrono::nanoseconds silent_after);

}  // namespace horo::observe
