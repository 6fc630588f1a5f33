#include "horo/runtime/job_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "collectives/selection/link_cost.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/base/system/line_file.h"
#include "horo/base/text/log.h"

namespace horo {
namespace {

using collectives::AllreduceSelection;
using collectives::JobShape;
using collectives::LinkCost;
using collectives::PointToPoint;

// Returns the texts of the compared settings, in the order of the table, each followed by '\0'. The
// value of an environment variable contains no '\0'.
std::string compared_settings(const ParsedEnvironment& environment) {
  std::string texts;
  for (std::size_t i = 0; i < environment.value_of.size(); ++i)
    if (settings_table()[i].same_on_all_ranks) texts += environment.value_of[i] + '\0';
  return texts;
}

constexpr int kClockTag = 7001;
constexpr int kClockRoundTrips = 12;

std::int64_t wall_clock() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void send_time(PointToPoint& peers, int peer, std::int64_t time) {
  peers.wait(peers.start_send(peer, kClockTag, std::as_bytes(std::span(&time, 1))),
             "while comparing clocks");
}
std::int64_t receive_time(PointToPoint& peers, int peer) {
  std::int64_t time = 0;
  peers.wait(peers.start_receive(peer, kClockTag, std::as_writable_bytes(std::span(&time, 1))),
             "while comparing clocks");
  return time;
}

// Assumes that rank 0 read its clock midway between the two readings of this rank's clock. The
// error is at most half of the round trip, so the shortest round trip has the smallest bound.
std::int64_t measure_clock_offset(PointToPoint& peers) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t offset = 0;
  for (int trip = 0; trip < kClockRoundTrips; ++trip) {
    const std::int64_t sent = wall_clock();
    send_time(peers, 0, sent);
    const std::int64_t reply = receive_time(peers, 0);
    const std::int64_t received = wall_clock();
    if (received - sent >= shortest) continue;
    shortest = received - sent;
    offset = reply - sent - shortest / 2;
  }
  return offset;
}

void reply_with_clock(PointToPoint& peers, int peer) {
  for (int trip = 0; trip < kClockRoundTrips; ++trip) {
    receive_time(peers, peer);
    send_time(peers, peer, wall_clock());
  }
}

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

LinkCost slowest_link(LinkCost own, collectives::Collectives& collectives) {
  double figures[] = {own.alpha, own.beta, own.gamma};
  collectives.allreduce({DataType::kFloat64, figures, 3}, ReduceOp::kMax);
  return {figures[0], figures[1], figures[2]};
}

void log_link(const LinkCost& link, std::string_view source) {
  log_info(
      "between nodes a message costs {:.1f} us and {:.2f} ns per byte, combining {:.2f} ns "
      "per byte ({})",
      link.alpha * 1e6, link.beta * 1e9, link.gamma * 1e9, source);
}

}  // namespace

// If the settings agree, this costs one comparison of hashes. The settings are gathered only to
// name a difference. Every rank evaluates the same gathered texts, so all ranks throw or none does.
void check_settings_agree(const ParsedEnvironment& environment,
                          collectives::Collectives& collectives, const Topology& topology) {
  const std::string own = compared_settings(environment);
  if (collectives::all_equal(Hash().add(own).value(), collectives)) return;

  const auto all = collectives::gather_all(std::as_bytes(std::span(own)), collectives, topology);
  const auto settings_of = [&](int rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  // Different texts may mean the same value.
  for (int rank = 1; rank < topology.size; ++rank) {
    std::string_view first = settings_of(0);
    std::string_view other = settings_of(rank);
    for (const SettingInfo& setting : settings_table()) {
      if (!setting.same_on_all_ranks) continue;
      const std::string_view a = take_until(first, '\0');
      const std::string_view b = take_until(other, '\0');
      if (!is_same_value(setting, a, b))
        throw MismatchError(fmt::format(
            "the settings of the ranks differ: {}={} on {}, {}={} on {}; pass the same value to "
            "every rank (hororun --env does)",
            setting.name, a, topology.describe(0), setting.name, b, topology.describe(rank)));
    }
  }
}

JobClock own_clock() { return {static_cast<std::uint64_t>(wall_clock()), 0}; }

// Rank 0 replies to one node at a time, so the round trips of two nodes do not delay each other.
// The first round trip of a node may include the wait for its turn, but the node uses the shortest
// round trip. Each entry of `shared` is set on one rank only, so the sum gives all entries to every
// rank.
JobClock agree_on_clock(PointToPoint& peers, collectives::Collectives& collectives,
                        const Topology& topology) {
  // Entry n is the offset of node n. The offset of node 0 is zero, so entry 0 holds the number of
  // the job instead.
  std::vector<std::int64_t> shared(static_cast<std::size_t>(topology.node_count), 0);
  for (int node = 1; node < topology.node_count; ++node) {
    const int first = topology.ranks_of(node).front();
    if (topology.rank == 0) reply_with_clock(peers, first);
    if (topology.rank == first)
      shared[static_cast<std::size_t>(node)] = measure_clock_offset(peers);
  }
  if (topology.rank == 0) shared[0] = wall_clock();
  collectives.allreduce({DataType::kInt64, shared.data(), shared.size()}, ReduceOp::kSum);
  return {static_cast<std::uint64_t>(shared[0]),
          topology.node == 0 ? 0 : shared[static_cast<std::size_t>(topology.node)]};
}

// The hub listens before its address is broadcast, so a watchdog that connects at once succeeds.
std::pair<observe::HubAddress, std::unique_ptr<observe::LeaderHub>> agree_on_hub_address(
    collectives::Collectives& collectives, const Topology& topology, bool is_one_process,
    std::span<const std::string> interfaces) {
  observe::HubAddress address;
  std::unique_ptr<observe::LeaderHub> hub;
  if (topology.node_count == 1) return {address, nullptr};
  if (topology.rank == 0) {
    hub = std::make_unique<observe::LeaderHub>(topology.node_count, ranks_of_largest_node(topology),
                                               is_one_process || is_one_host(topology), interfaces);
    address = hub->address();
    if (!hub->is_open())
      log_warning(
          "rank 0 cannot listen on a TCP port: the watchdog of each node reports its own ranks "
          "only");
  }
  collectives.broadcast({DataType::kUInt8, &address, sizeof address}, 0);
  return {address, std::move(hub)};
}

// All ranks must select the same algorithm for a message, so all ranks use the same figures. These
// are the figures that rank 0 has read from the file, or the largest figures of a measurement.
AllreduceSelection agree_on_allreduce(const Settings& settings, PointToPoint& peers,
                                      collectives::Collectives& collectives,
                                      const Topology& topology) {
  AllreduceSelection selection;
  selection.setting = settings.allreduce;
  if (topology.node_count == 1 || settings.allreduce != MessageAllreduce::kAuto) return selection;
  const std::string& path = settings.link_file;
  const LineFile file("HORO_LINK_FILE", path);
  const JobShape shape{topology.node_count, topology.size};
  // Only rank 0 reads and writes the file, because the hosts need not share a file system.
  std::string line;
  if (!path.empty())
    line = collectives::from_rank_0(
        [&] {
          const auto found = collectives::find_link(file.read().value_or(""), shape, path);
          return found ? collectives::link_line(shape, *found) : std::string();
        },
        collectives, topology);
  if (!line.empty()) {
    selection.link = *collectives::find_link(line, shape, path);
    if (topology.rank == 0) log_link(selection.link, path);
  } else {
    const auto start = std::chrono::steady_clock::now();
    selection.link = slowest_link(collectives::measure_link(peers, topology), collectives);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    if (topology.rank == 0)
      log_link(selection.link, fmt::format("measured in {:.0f} ms", elapsed.count()));
    if (!path.empty())
      collectives::from_rank_0(
          [&] {
            collectives::add_to_link_file(file, shape, selection.link);
            return std::string();
          },
          collectives, topology);
  }
  if (!path.empty()) selection.ring_boundary = selection.link;
  return selection;
}

}  // namespace horo
