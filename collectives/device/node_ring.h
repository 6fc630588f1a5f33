#pragma once

#include <memory>
#include <utility>

#include "collectives/rank_names.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Collectives in host memory among the ranks of this rank's node, over messages: what connects
/// their GPUs, and what stands in for the GPUs' library.
class NodeRing {
 public:
  /// `peers`: among all ranks; carries nothing else.
  NodeRing(std::unique_ptr<PointToPoint> peers, const Topology& topology, std::size_t segment_bytes)
      : peers_(std::move(peers)),
        group_(*peers_, topology.ranks_of(topology.node), 0),
        ring_(group_, segment_bytes, names_of(topology, topology.ranks_of(topology.node))) {}
  /// Transfers that a failure left open end before the memory that they write to.
  ~NodeRing() { peers_.reset(); }
  NodeRing(const NodeRing&) = delete;
  NodeRing& operator=(const NodeRing&) = delete;

  /// `policy` outlives this.
  void set_wait_policy(const WaitPolicy& policy) { peers_->set_wait_policy(policy); }
  Collectives& collectives() { return ring_; }

 private:
  std::unique_ptr<PointToPoint> peers_;
  SubGroup group_;
  RingCollectives ring_;
};

}  // namespace horo::collectives
