#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/point_to_point.h"
#include "horo/base/error.h"

namespace horo::collectives {

// The tags of the messages of collectives, below kTagCount. A group runs one collective at a time,
// and messages with one tag from one rank to another arrive in order. Several collectives can
// therefore use the same tag.
inline constexpr int kFlowTag = 0;
inline constexpr int kBroadcastTag = 1;
inline constexpr int kBarrierTag = 2;
inline constexpr int kExchangeTag = 3;
/// The number of tags that one group uses. The tag offsets of groups are multiples of this number.
inline constexpr int kTagCount = 4;

/// Some ranks of a parent, renumbered 0, 1, ... in the given order. Only one thread at a time may
/// use the parent and all its groups. Two groups that have common ranks need different tag offsets,
/// unless all common ranks run the collectives of both groups in the same order.
class SubGroup : public PointToPoint {
 public:
  /// `ranks` are ranks of the parent and must include this rank. `tag_offset` is added to each tag.
  /// `parent` must outlive this object.
  SubGroup(PointToPoint& parent, std::vector<int> ranks, int tag_offset);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  const WaitPolicy& default_wait_policy() const override { return parent_.wait_policy(); }
  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override {
    return parent_.start_send(parent_rank(peer), tag_offset_ + tag, bytes);
  }
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override {
    return parent_.start_receive(parent_rank(peer), tag_offset_ + tag, bytes);
  }
  bool test(Ticket ticket) override { return parent_.test(ticket); }

  int parent_rank(int peer) const { return ranks_[static_cast<std::size_t>(peer)]; }

 private:
  PointToPoint& parent_;
  std::vector<int> ranks_;
  int tag_offset_;
  int rank_ = 0;
};

inline SubGroup::SubGroup(PointToPoint& parent, std::vector<int> ranks, int tag_offset)
    : parent_(parent), ranks_(std::move(ranks)), tag_offset_(tag_offset) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), parent.rank());
  HORO_CHECK(own != ranks_.end(), "this rank is not a member of the group");
  rank_ = static_cast<int>(own - ranks_.begin());
}

}  // namespace horo::collectives
