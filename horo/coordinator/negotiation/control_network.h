#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/coordinator/negotiation/byte_ring.h"
#include "horo/coordinator/negotiation/doorbell.h"

namespace horo::coordinator {

/// Sends control messages between the leader of a node (local rank 0) and the other ranks of the
/// node through shared memory. One ByteRing leads from each other rank to the leader, and one
/// ByteRing leads from the leader to all other ranks. The messages of one sender keep their order.
/// send() does not block. Used by one thread at a time, except the doorbells.
class NodeChannel {
 public:
  struct Message {
    std::size_t source = 0;  ///< local rank
    std::vector<std::byte> bytes;
  };

  /// Collective over `transport`. Throws SharedMemoryError on all ranks if a node cannot allocate
  /// the memory.
  explicit NodeChannel(collectives::Transport& transport);

  /// The doorbell of this rank.
  Doorbell& doorbell() { return *doorbells_[own_]; }
  /// Wakes all ranks of the node.
  void ring_all();

  /// Sends from the leader to all other ranks, or from another rank to the leader. Does nothing on
  /// a node of one rank. Wakes readers from a deep sleep only if `is_urgent`.
  void send(std::span<const std::byte> bytes, bool is_urgent = false);
  /// Returns the next message for this rank, if there is one.
  std::optional<Message> poll();
  /// Writes bytes that did not fit into the ring before. Returns whether the ring has received all
  /// messages of this rank.
  bool flush();
  /// Waits until the ring has received all messages of the leader. Called on the leader only. The
  /// caller must ensure that the readers do not wait for the leader at the same time.
  void flush_all(const WaitPolicy& policy);

 private:
  void tell_readers(bool is_urgent);

  std::size_t own_;
  std::size_t size_;
  std::unique_ptr<collectives::SharedRegion> region_;  // null on a node of one rank
  Doorbell lone_doorbell_;
  std::vector<Doorbell*> doorbells_;  // by local rank
  std::optional<ByteRingWriter> writer_;
  std::vector<ByteRingReader> readers_;  // one for each other rank on the leader, otherwise one
  std::size_t next_reader_ = 0;
};

/// The parent and the children of one rank in the tree of control messages. The first rank of a
/// node is the leader of the node and the parent of the other ranks of the node. The leaders form a
/// binomial tree over the node numbers, with rank 0 as the root. The parent of node n is n without
/// the lowest set bit of n. A leader has at most log2(nodes) (rounded up) children on other nodes,
/// and at most as many links lie between the leader and the root.
struct ControlTree {
  explicit ControlTree(const Topology& topology);

  bool is_root() const { return parent < 0; }
  /// Returns whether this rank is the leader of its node.
  bool is_leader() const { return is_root() || !is_parent_local; }

  int parent = -1;  ///< a rank; -1 on the root
  bool is_parent_local = false;
  /// The ranks whose parent is this rank. First the ranks of this node in ascending order, then the
  /// leaders of other nodes in ascending order.
  std::vector<int> children;
  std::size_t local_children = 0;
  /// ranks_of[0] contains only this rank. ranks_of[1 + c] contains the subtree of child c in
  /// ascending order. All lists together are the subtree of this rank.
  std::vector<std::vector<int>> ranks_of;
};

/// Returns the children of `node` in a tree of `node_count` nodes in ascending order.
std::vector<int> child_nodes(int node, int node_count);
/// The subtree of `node` is [node, subtree_end(node, node_count)).
int subtree_end(int node, int node_count);

/// The links of one rank in the control tree. Inside a node, the links use shared memory. Between
/// the leaders of nodes, the links use messages of the transport. Each link keeps the order of
/// messages. Used by one thread at a time, except the doorbell and the counts.
class ControlNetwork {
 public:
  /// A message from the parent, or from child number `child`.
  struct Message {
    bool is_from_parent = false;
    std::size_t child = 0;
    std::vector<std::byte> bytes;
  };
  struct Traffic {
    std::atomic<std::uint64_t> messages{0};
    std::atomic<std::uint64_t> bytes{0};
  };

  /// Collective over `transport`, which must outlive this object.
  explicit ControlNetwork(collectives::Transport& transport);

  const ControlTree& tree() const { return tree_; }
  Doorbell& doorbell() { return node_.doorbell(); }
  /// Returns whether messages from other nodes may arrive. These messages ring no doorbell.
  bool must_poll() const { return channel_ != nullptr && tree_.is_leader(); }

  /// Must not be called on the root. If `is_urgent`, wakes a parent on this node from a deep sleep.
  void send_to_parent(std::span<const std::byte> bytes, bool is_urgent);
  void send_to_children(std::span<const std::byte> bytes);
  std::optional<Message> poll();
  /// Writes bytes that did not fit into shared memory before. Returns whether no such bytes are
  /// left.
  bool flush() { return node_.flush(); }
  /// Waits until all messages to the other ranks of the node are in shared memory. The caller must
  /// call flush_all() before this rank enters a collective. Without the messages, those ranks
  /// cannot enter the collective.
  void flush_all();
  /// Wakes all ranks of the node.
  void ring_all() { node_.ring_all(); }

  const Traffic& between_nodes() const { return between_nodes_; }
  const Traffic& in_node() const { return in_node_; }

 private:
  void send_message(int rank, std::span<const std::byte> bytes);

  collectives::Transport& transport_;
  ControlTree tree_;
  NodeChannel node_;
  std::unique_ptr<collectives::MessageChannel> channel_;  // null on a single node
  std::vector<std::size_t> child_of_rank_;
  Traffic between_nodes_, in_node_;
};

}  // namespace horo::coordinator
