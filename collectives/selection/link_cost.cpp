#include "collectives/selection/link_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/error.h"

namespace horo::collectives {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSmall = 8;
// kLarge should exceed the burst that a rate-limited link sends at full speed. The allowance for a
// burst recovers while the ranks wait for a processor core. Messages within the allowance would
// show a rate that is many times too high.
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

// A ping-pong between two ranks: the initiator measures, and the responder replies to each message.
// The first byte of the initiator's message is 1 in the last round and 0 before.
class PingPong {
 public:
  PingPong(PointToPoint& peers, int peer, const std::string& peer_name)
      : peers_(peers), peer_(peer), peer_name_(peer_name), sent_(kLarge), received_(kLarge) {}

  // Returns the median time of one message in seconds. The time of one message is half a round
  // trip. The first `unmeasured` rounds open connections and are not measured. If the time limit
  // ends the ping-pong during these rounds, the last of them is measured.
  double initiate(std::size_t bytes, int rounds, int unmeasured) {
    std::vector<double> samples;
    const auto begin = Clock::now();
    for (int round = 1; sent_[0] == std::byte{0}; ++round) {
      const bool is_last = round >= rounds || Clock::now() - begin > kMostTime;
      sent_[0] = std::byte{is_last};
      const auto start = Clock::now();
      // The receive is posted before the send, so that the reply never arrives before its receive
      // is posted.
      const auto reply = receive(bytes);
      send(bytes);
      finish(reply);
      if (round > unmeasured || (is_last && samples.empty()))
        samples.push_back(seconds_since(start) / 2);
    }
    sent_[0] = std::byte{0};
    return median(std::move(samples));
  }
  void respond(std::size_t bytes) {
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
  PingPong ping_pong(peers, peer, peer_name);
  if (topology.node > other_node) {
    ping_pong.respond(kSmall);
    ping_pong.respond(kLarge);
    return {};
  }
  LinkCost link;
  link.alpha = ping_pong.initiate(kSmall, kSmallRounds, 4);
  link.beta =
      std::max(0.0, ping_pong.initiate(kLarge, kLargeRounds, 1) - link.alpha) / (kLarge - kSmall);
  link.gamma = seconds_per_combined_byte();
  return link;
}

namespace {

constexpr std::string_view kExplanation =
    "# What messages between nodes cost: seconds per message (alpha), per byte sent (beta) and "
    "per\n"
    "# byte combined (gamma). Written by horo when HORO_LINK_FILE names this file. If you remove\n"
    "# a line, the next job with its nodes and ranks measures the costs again.\n";
constexpr std::array<std::string_view, 5> kKeys = {"nodes", "ranks", "alpha", "beta", "gamma"};

double parse_value(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    throw InvalidArgument(fmt::format("{} must be a number of at least 0, not '{}'", key, text));
  return value;
}

std::array<double, kKeys.size()> parse_line(std::string_view line) {
  std::array<double, kKeys.size()> values{};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    std::string_view value = take_until(line, ' ');
    if (take_until(value, '=') != kKeys[i])
      throw InvalidArgument(fmt::format("'{}=...' is missing", kKeys[i]));
    values[i] = parse_value(kKeys[i], value);
  }
  if (!line.empty()) throw InvalidArgument(fmt::format("'{}' follows the last value", line));
  if (values[2] <= 0) throw InvalidArgument("alpha must be above 0");
  return values;
}

}  // namespace

std::string link_line(const JobShape& shape, const LinkCost& link) {
  return fmt::format("nodes={} ranks={} alpha={} beta={} gamma={}", shape.nodes, shape.ranks,
                     link.alpha, link.beta, link.gamma);
}

std::optional<LinkCost> find_link(std::string_view text, const JobShape& shape,
                                  std::string_view path) {
  std::optional<LinkCost> found;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_until(text, '\n');
    if (line.empty() || line.starts_with('#')) continue;
    try {
      const auto values = parse_line(line);
      // Jobs of the same shape that started at the same time may each have added a line. The first
      // line is used.
      if (found || values[0] != shape.nodes || values[1] != shape.ranks) continue;
      found = LinkCost{values[2], values[3], values[4]};
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          fmt::format("HORO_LINK_FILE: {}:{}: {}; correct it, or remove the file to measure again",
                      path, number, error.what()));
    }
  }
  return found;
}

void add_to_link_file(const LineFile& file, const JobShape& shape, const LinkCost& link) {
  file.append(link_line(shape, link), kExplanation);
}

}  // namespace horo::collectives
