#pragma once

#include <memory>
#include <utility>

#include "collectives/collectives.h"
#include "horo/base/topology.h"
#include "horo/observe/leader_hub.h"
#include "horo/observe/meeting_point.h"

namespace horo {

/// Tells all ranks where the watchdogs of the nodes meet, and opens that place on rank 0, which
/// alone gets a hub. In a job of one node there is neither. Collective.
std::pair<observe::MeetingPoint, std::unique_ptr<observe::LeaderHub>> agree_on_meeting_point(
    collectives::Collectives& collectives, const Topology& topology, bool is_one_process);

}  // namespace horo
