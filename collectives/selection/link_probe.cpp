#include "collectives/selection/link_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/ring/await.h"
#include "collectives/ring/tags.h"

namespace horo::collectives {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSmall = 8;
// More than the burst that a link with a limited rate lets pass at once: where the ranks have to
// wait for their cores, the allowance grows back between messages, and smaller ones would make the
// link look many times faster than it is.
constexpr std::size_t kLarge = 256 * 1024;
constexpr int kSmallRounds = 40;
constexpr int kLargeRounds = 4;
constexpr std::size_t kCombined = 64 * 1024;
constexpr auto kMostTime = std::chrono::milliseconds(40);  // for each of the two sizes

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Between two ranks; the first byte of a message says whether it is the last.
class PingPong {
 public:
  PingPong(PointToPoint& peers, int peer, const std::string& peer_name)
      : peers_(peers), peer_(peer), peer_name_(peer_name), sent_(kLarge), received_(kLarge) {}

  /// Seconds of one message, half a round. The first `unmeasured` rounds, which open connections,
  /// do not count.
  double lead(std::size_t bytes, int rounds, int unmeasured) {
    std::vector<double> samples;
    const auto begin = Clock::now();
    for (int round = 1; sent_[0] == std::byte{0}; ++round) {
      const bool is_last = round >= rounds || Clock::now() - begin > kMostTime;
      sent_[0] = std::byte{is_last};
      const auto start = Clock::now();
      const auto answer = receive(bytes);
      send(bytes);
      finish(answer);
      if (round > unmeasured || (is_last && samples.empty()))
        samples.push_back(seconds_since(start) / 2);
    }
    sent_[0] = std::byte{0};
    return median(std::move(samples));
  }
  void follow(std::size_t bytes) {
    do {
      finish(receive(bytes));
      send(bytes);
    } while (received_[0] == std::byte{0});
  }

 private:
  PointToPoint::Ticket receive(std::size_t bytes) {
    return peers_.start_receive(peer_, kExchangeTag, std::span(received_).first(bytes));
  }
  void finish(PointToPoint::Ticket receive) {
    await(peers_, receive, "to answer while the link is measured", peer_name_);
  }
  void send(std::size_t bytes) {
    await(peers_, peers_.start_send(peer_, kExchangeTag, std::span(sent_).first(bytes)),
          "to take part while the link is measured", peer_name_);
  }

  PointToPoint& peers_;
  int peer_;
  const std::string& peer_name_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

double seconds_per_combined_byte() {
  std::vector<std::byte> a(kCombined), b(kCombined);
  const std::byte* sources[] = {a.data(), b.data()};
  std::vector<double> samples;
  for (int round = 0; round < 9; ++round) {
    const auto start = Clock::now();
    reduce(DataType::kFloat32, ReduceOp::kSum, sources, kCombined / sizeof(float), 1, a.data(),
           Stores::kPlain);
    samples.push_back(seconds_since(start) / kCombined);
  }
  return median(std::move(samples));
}

}  // namespace

LinkCost measure_link(PointToPoint& peers, const Topology& topology) {
  const int other_node = topology.node ^ 1;
  if (topology.local_rank != 0 || other_node >= topology.node_count) return {};
  const int peer = topology.ranks_of(other_node).front();
  const std::string peer_name = topology.describe(peer);
  PingPong game(peers, peer, peer_name);
  if (topology.node > other_node) {
    game.follow(kSmall);
    game.follow(kLarge);
    return {};
  }
  LinkCost link;
  link.alpha = game.lead(kSmall, kSmallRounds, 4);
  link.beta = std::max(0.0, game.lead(kLarge, kLargeRounds, 1) - link.alpha) / (kLarge - kSmall);
  link.gamma = seconds_per_combined_byte();
  return link;
}

}  // namespace horo::collectives
