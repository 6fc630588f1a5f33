#pragma once

#include <fmt/format.h>

#include <string_view>

#include "collectives/point_to_point.h"

namespace horo::collectives {

/// Waits for a transfer. The error, if it takes too long, says "for <peer_name> <what>"; its text
/// is made only when the transfer is not done soon.
inline void await(PointToPoint& peers, PointToPoint::Ticket ticket, std::string_view what,
                  std::string_view peer_name) {
  constexpr int kQuickTests = 16;
  for (int i = 0; i < kQuickTests; ++i)
    if (ticket == 0 || peers.test(ticket)) return;
  peers.wait(ticket, fmt::format("for {} {}", peer_name, what));
}

}  // namespace horo::collectives
