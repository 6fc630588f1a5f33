#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "collectives/collectives.h"
#include "collectives/point_to_point.h"
#include "collectives/selection/allreduce_selection.h"
#include "horo/base/environment.h"
#include "horo/base/topology.h"
#include "horo/watchdog/leader_link.h"
#include "horo/watchdog/link_message.h"

/// The steps of init() in which all ranks of a job agree on its configuration. All functions that
/// take `collectives` are collective over the job: all ranks must call them in the same order.
namespace horo {

/// Compares the settings that must be the same on all ranks. `collectives` must not depend on any
/// of these settings. If a setting differs, throws MismatchError with the same text on every rank.
/// The text names the setting, the first rank that differs from rank 0, and both values.
void check_settings_agree(const ParsedEnvironment& environment,
                          collectives::Collectives& collectives, const Topology& topology);

/// The number of a job and a clock offset, for the flight recorders of the job.
struct JobClock {
  std::uint64_t job = 0;  ///< the number of the job: equal on all ranks, larger in later jobs
  /// The wall clock of this host plus this offset, in ns, is the wall clock of rank 0.
  std::int64_t clock_offset = 0;
};

/// Agrees on the number of the job and the clock offset of each node. The first rank of each node
/// except node 0 measures the offset in 12 round trips with rank 0 and uses the shortest round
/// trip. The error is at most half of the shortest round trip. (Source: Cristian, "Probabilistic
/// clock synchronization", 1989.)
JobClock agree_on_clock(collectives::PointToPoint& peers, collectives::Collectives& collectives,
                        const Topology& topology);
/// Returns the number and the clock offset for a job of one rank. Not collective.
JobClock own_clock();

/// Agrees on the address at which the watchdogs of the nodes connect to rank 0. Only rank 0
/// receives a hub, which listens at that address. `is_one_process` is true if the ranks are threads
/// of one process. See host_addresses() for `interfaces`. If rank 0 cannot listen, it logs a
/// warning. In a job of one node, the address and the hub are empty.
std::pair<observe::HubAddress, std::unique_ptr<observe::LeaderHub>> agree_on_hub_address(
    collectives::Collectives& collectives, const Topology& topology, bool is_one_process,
    std::span<const std::string> interfaces);

/// Agrees on how the job selects an allreduce over messages. If HORO_ALLREDUCE is "auto" and the
/// job has several nodes, the selection uses the cost of messages between nodes. Rank 0 reads that
/// cost from HORO_LINK_FILE. If there is no file or no entry for a job of this shape, the ranks
/// measure the cost with measure_link() and use the largest value of each figure. Rank 0 then
/// appends the figures to the file, if HORO_LINK_FILE is set. Rank 0 logs the figures at level
/// info.
///
/// The caller must call this function once, after check_settings_agree(). `collectives` must use
/// `peers` and must not depend on the result. Throws InvalidArgument, with the same text on every
/// rank, if the file cannot be used.
collectives::AllreduceSelection agree_on_allreduce(const Settings& settings,
                                                   collectives::PointToPoint& peers,
                                                   collectives::Collectives& collectives,
                                                   const Topology& topology);

}  // namespace horo
