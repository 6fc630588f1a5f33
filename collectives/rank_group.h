#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/point_to_point.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// What the first exchange of the ranks in horo::init() waits for; completes "waited 5 min ...".
inline constexpr std::string_view kWaitForAllRanks =
    "in horo::init() for ranks that have not called it or cannot be reached: check whether they "
    "run, what they do before init(), and the network between the hosts";

/// A group of ranks that exchange small messages while they set up a transport or shared memory.
/// Only one thread at a time may use a group.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the bytes of all ranks, in rank order. All ranks must pass the same number of bytes.
  /// Collective. `what` completes the error text "waited 5 min ...".
  virtual std::vector<std::byte> gather(std::span<const std::byte> own, std::string_view what) = 0;

  /// The same for a value of each rank.
  template <typename T>
  std::vector<T> gather_values(const T& own, std::string_view what) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&own, 1)), what);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

/// Some ranks of a PointToPoint, as a group. Gathers through the first of them: a message from each
/// member and one to each member.
class PeerGroup : public RankGroup {
 public:
  /// `peers` must outlive the group, and must not be used during gather(). `members` are ranks of
  /// `peers`, ascending, and include this rank.
  PeerGroup(PointToPoint& peers, std::vector<int> members);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::vector<std::byte> gather(std::span<const std::byte> own, std::string_view what) override;

 private:
  PointToPoint& peers_;
  std::vector<int> members_;
  int rank_;
};

/// Returns the topology of the ranks of `group`. Collective. Ranks with equal `node_key` can share
/// memory. Uses the first 255 bytes of `host`, the name of this host. If `ranks_per_node` is k > 0,
/// each real node is divided into emulated nodes. The ranks of one real node with the same value of
/// rank / k, rounded down, form one emulated node.
Topology gather_topology(RankGroup& group, std::uint64_t node_key, std::string_view host,
                         std::size_t ranks_per_node);

}  // namespace horo::collectives
