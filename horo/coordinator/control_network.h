#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/message_channel.h"
#include "collectives/transport.h"
#include "horo/coordinator/control_tree.h"
#include "horo/coordinator/node_channel.h"

namespace horo::coordinator {

/// The links of one rank in the control tree: shared memory inside its node, messages between the
/// nodes' leaders. Order is kept on every link. Used by one thread at a time, the doorbell and the
/// counts excepted.
class ControlNetwork {
 public:
  /// From the parent, or from child `child`.
  struct Message {
    bool is_from_parent = false;
    std::size_t child = 0;
    std::vector<std::byte> bytes;
  };
  struct Traffic {
    std::atomic<std::uint64_t> messages{0};
    std::atomic<std::uint64_t> bytes{0};
  };

  /// Collective over the job. `transport` outlives the network.
  explicit ControlNetwork(collectives::Transport& transport);

  const ControlTree& tree() const { return tree_; }
  Doorbell& doorbell() { return node_.doorbell(); }
  /// Whether messages may come that ring no doorbell.
  bool must_poll() const { return channel_ != nullptr && tree_.is_leader(); }

  /// Not on the root. `is_urgent`: a parent of this node that has nothing pending is woken too.
  void send_to_parent(std::span<const std::byte> bytes, bool is_urgent);
  /// To all children.
  void send_to_children(std::span<const std::byte> bytes);
  std::optional<Message> poll();
  /// Moves on what did not fit. Returns whether nothing is left.
  bool flush() { return node_.flush(); }
  /// Returns when the node's ranks have room for all that was sent to them: before this rank waits
  /// for them in a collective.
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
