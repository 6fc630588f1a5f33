#pragma once

#include <vector>

#include "collectives/communicator.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Runs one agreed response on this rank's entries (in the response's order) and blocks until it is
/// done. `topology`: the job's. Throws CommunicationError if a peer is lost, InvalidArgument, on
/// the ranks concerned, if an output has the wrong size for what the ranks agreed on. Coordinator
/// thread only.
void execute(const Response& response, std::vector<Entry>& entries,
             collectives::Communicator& communicator, const Topology& topology);

}  // namespace horo::coordinator
