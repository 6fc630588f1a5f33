#include "horo/watch_meeting.h"

#include <algorithm>

#include "horo/base/log.h"

namespace horo {
namespace {

int ranks_of_largest_node(const Topology& topology) {
  int most = 0;
  for (int node = 0; node < topology.node_count; ++node)
    most = std::max(most, static_cast<int>(topology.ranks_of(node).size()));
  return most;
}

bool is_one_host(const Topology& topology) {
  const auto& hosts = topology.host_of;
  return std::equal(hosts.begin() + 1, hosts.end(), hosts.begin());
}

}  // namespace

std::pair<observe::MeetingPoint, std::unique_ptr<observe::LeaderHub>> agree_on_meeting_point(
    collectives::Collectives& collectives, const Topology& topology, bool is_one_process) {
  observe::MeetingPoint point;
  std::unique_ptr<observe::LeaderHub> hub;
  if (topology.node_count == 1) return {point, nullptr};
  if (topology.rank == 0) {
    hub = std::make_unique<observe::LeaderHub>(topology.node_count, ranks_of_largest_node(topology),
                                               is_one_process || is_one_host(topology));
    point = hub->point();
    if (!hub->is_open())
      log_warning(
          "rank 0 cannot listen on a TCP port: the watchdog of each node speaks of its own ranks "
          "only");
  }
  collectives.broadcast({DataType::kUInt8, &point, sizeof point}, 0);
  return {point, std::move(hub)};
}

}  // namespace horo
