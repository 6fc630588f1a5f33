#pragma once

#include <vector>

#include "collectives/point_to_point.h"

namespace horo::collectives {

/// Some ranks of a parent, renumbered 0, 1, ... in the order given. Shares the parent's thread
/// rule. Groups of one parent that have ranks in common use tag offsets that keep their tags apart.
class SubGroup : public PointToPoint {
 public:
  /// `ranks`: the parent's ranks; this rank is one of them. `parent` outlives this.
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

}  // namespace horo::collectives
