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
/// Used by one thread at a time, except the doorbells, which are thread-safe.
class NodeChannel {
 public:
  struct Message {
    std::size_t source = 0;  ///< local rank
    std::vector<std::byte> bytes;
  };

  /// Collective over `transport`. Throws SharedMemoryError on all ranks if a node cannot allocate
  /// the memory.
  explicit NodeChannel(collectives::Transport& transport);

  /// Returns the doorbell of this rank.
  Doorbell& doorbell() { return *doorbells_[own_]; }
  /// Rings the doorbells of all ranks of the node.
  void ring_all();

  /// Sends a message from the leader to all other ranks of the node, or from another rank to the
  /// leader. Does nothing on a node of one rank. Rings the readers' doorbells, gently unless
  /// `is_urgent`. Does not block.
  void send(std::span<const std::byte> bytes, bool is_urgent = false);
  /// Returns the next message for this rank, if there is one.
  std::optional<Message> poll();
  /// Writes bytes that did not fit into the ring before. Returns whether all messages of this rank
  /// have been written completely. Does not block.
  bool flush();
  /// Waits until all messages of this rank have been written completely. Called only on the leader.
  /// The other ranks must read messages meanwhile, so they must not wait for the leader elsewhere.
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

/// The parent and the children of one rank in the control tree, along which the ranks send control
/// messages. The first rank of a node is the leader of the node and the parent of the node's other
/// ranks. The leaders form a binomial tree over the node numbers, with rank 0 as the root. The
/// parent of the leader of node n is the leader of the node whose number is n without its lowest
/// set bit. Let d be log2(node count), rounded up. A leader has at most d children on other nodes,
/// and the path from a leader to the root has at most d links.
struct ControlTree {
  explicit ControlTree(const Topology& topology);

  bool is_root() const { return parent < 0; }
  /// Returns whether this rank is the leader of its node.
  bool is_leader() const { return is_root() || !is_parent_local; }

  int parent = -1;  ///< a rank; -1 on the root
  bool is_parent_local = false;
  /// The ranks whose parent is this rank: first those of this node in ascending order, then the
  /// leaders of other nodes in ascending order.
  std::vector<int> children;
  /// The number of children on this node.
  std::size_t local_children = 0;
  /// ranks_of[0] contains only this rank. ranks_of[1 + c] contains the ranks of the subtree of
  /// children[c] in ascending order. All lists together contain the subtree of this rank.
  std::vector<std::vector<int>> ranks_of;
};

/// Returns the children of `node` in a binomial tree of `node_count` nodes, in ascending order.
std::vector<int> child_nodes(int node, int node_count);
/// Returns the first node number after the subtree of `node`. The subtree consists of consecutive
/// nodes, beginning with `node`.
int subtree_end(int node, int node_count);

/// Sends control messages from one rank to its parent and children in the control tree. Inside a
/// node, the messages use shared memory. Between the leaders of nodes, they use a MessageChannel.
/// The messages from one rank to another keep their order. Used by one thread at a time, except
/// doorbell(), between_nodes() and in_node(), which are thread-safe.
class ControlNetwork {
 public:
  /// A message from the parent, or else from tree().children[child].
  struct Message {
    bool is_from_parent = false;
    std::size_t child = 0;
    std::vector<std::byte> bytes;
  };
  /// What this rank has sent. One message to all other ranks of the node counts once.
  struct Traffic {
    std::atomic<std::uint64_t> messages{0};
    std::atomic<std::uint64_t> bytes{0};
  };

  /// Collective over `transport`, which must outlive this object.
  explicit ControlNetwork(collectives::Transport& transport);

  const ControlTree& tree() const { return tree_; }
  Doorbell& doorbell() { return node_.doorbell(); }
  /// Returns whether messages from other nodes may arrive at this rank. These messages do not ring
  /// the doorbell.
  bool must_poll() const { return channel_ != nullptr && tree_.is_leader(); }

  /// Must not be called on the root. If `is_urgent`, also wakes a parent on this node from a deep
  /// sleep. Does not block.
  void send_to_parent(std::span<const std::byte> bytes, bool is_urgent);
  /// Sends the same message to all children. Does not block.
  void send_to_children(std::span<const std::byte> bytes);
  /// Returns the next message that has arrived, if there is one. Does not block.
  std::optional<Message> poll();
  /// See NodeChannel::flush().
  bool flush() { return node_.flush(); }
  /// Waits until all messages to the children on this node have been written completely. A rank
  /// must call flush_all() before it enters a collective, because these children cannot enter the
  /// collective without the messages.
  void flush_all();
  /// Rings the doorbells of all ranks of the node.
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
