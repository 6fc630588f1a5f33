#pragma once

#include <chrono>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// The time by this host's clock.
inline WallTime wall_time_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// When by the wall clock it was `time` by the steady one, which nobody sets.
inline WallTime wall_time_of(std::chrono::steady_clock::time_point time) {
  const auto age = std::chrono::steady_clock::now() - time;
  return wall_time_now() - std::chrono::duration_cast<std::chrono::nanoseconds>(age).count();
}

}  // namespace horo::observe
