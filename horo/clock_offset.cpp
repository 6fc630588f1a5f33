#include "horo/clock_offset.h"

#include <chrono>
#include <limits>
#include <vector>

namespace horo {
namespace {

constexpr int kTag = 7001;
constexpr int kRoundTrips = 12;

std::int64_t wall_clock() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void send(collectives::PointToPoint& peers, int peer, std::int64_t value) {
  peers.wait(peers.start_send(peer, kTag, std::as_bytes(std::span(&value, 1))),
             "while clocks were compared");
}
std::int64_t receive(collectives::PointToPoint& peers, int peer) {
  std::int64_t value = 0;
  peers.wait(peers.start_receive(peer, kTag, std::as_writable_bytes(std::span(&value, 1))),
             "while clocks were compared");
  return value;
}

std::int64_t measure(collectives::PointToPoint& peers) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t offset = 0;
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    const std::int64_t sent = wall_clock();
    send(peers, 0, sent);
    const std::int64_t answer = receive(peers, 0);
    const std::int64_t received = wall_clock();
    if (received - sent >= shortest) continue;
    shortest = received - sent;
    offset = answer - sent - shortest / 2;
  }
  return offset;
}

void answer(collectives::PointToPoint& peers, int peer) {
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    receive(peers, peer);
    send(peers, peer, wall_clock());
  }
}

}  // namespace

JobClock own_clock() { return {static_cast<std::uint64_t>(wall_clock()), 0}; }

JobClock agree_on_clock(collectives::PointToPoint& peers, collectives::Collectives& collectives,
                        const Topology& topology) {
  // Entry n: the offset of node n; node 0's is zero, and its place takes the job's number.
  std::vector<std::int64_t> shared(static_cast<std::size_t>(topology.node_count), 0);
  for (int node = 1; node < topology.node_count; ++node) {
    const int first = topology.ranks_of(node).front();
    if (topology.rank == 0) answer(peers, first);
    if (topology.rank == first) shared[static_cast<std::size_t>(node)] = measure(peers);
  }
  if (topology.rank == 0) shared[0] = wall_clock();
  collectives.allreduce({DataType::kInt64, shared.data(), shared.size()}, ReduceOp::kSum);
  return {static_cast<std::uint64_t>(shared[0]),
          topology.node == 0 ? 0 : shared[static_cast<std::size_t>(topology.node)]};
}

}  // namespace horo
