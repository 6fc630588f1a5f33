#include "horo/coordinator/negotiation/control_network.h"

#include <algorithm>
#include <new>

namespace horo::coordinator {

namespace {

// The capacities of the rings to the leader and from the leader. If a ring is full, ByteRingWriter
// keeps further bytes.
constexpr std::size_t kUpBytes = 8 * 1024;
constexpr std::size_t kDownBytes = 32 * 1024;

std::size_t up_bytes() { return ByteRing::bytes_needed(kUpBytes, 1); }

}  // namespace

NodeChannel::NodeChannel(collectives::Transport& transport)
    : own_(static_cast<std::size_t>(transport.topology().local_rank)),
      size_(static_cast<std::size_t>(transport.topology().local_size)) {
  const std::size_t others = size_ - 1;
  // make_node_region() is collective over the transport. Therefore a rank that is alone on its node
  // also calls make_node_region() if another node has several ranks.
  if (transport.topology().size > transport.topology().node_count)
    region_ = transport.make_node_region(size_ * sizeof(Doorbell) + others * up_bytes() +
                                         ByteRing::bytes_needed(kDownBytes, others));
  if (size_ == 1) {
    region_.reset();
    doorbells_.push_back(&lone_doorbell_);
    return;
  }
  // Zeroed memory is the initial state of all objects in the region. No rank initialises them,
  // because a slow rank could overwrite data of a faster rank.
  std::byte* at = region_->bytes().data();
  for (std::size_t r = 0; r < size_; ++r, at += sizeof(Doorbell))
    doorbells_.push_back(reinterpret_cast<Doorbell*>(at));
  std::vector<ByteRing> up;
  for (std::size_t r = 0; r < others; ++r, at += up_bytes()) up.emplace_back(at, kUpBytes, 1);
  const ByteRing down(at, kDownBytes, others);
  if (own_ > 0) {
    writer_.emplace(up[own_ - 1]);
    readers_.emplace_back(down, own_ - 1);
    return;
  }
  writer_.emplace(down);
  for (const ByteRing& ring : up) readers_.emplace_back(ring, 0);
}

void NodeChannel::ring_all() {
  for (Doorbell* doorbell : doorbells_) doorbell->ring();
}

void NodeChannel::tell_readers(bool is_urgent) {
  const std::size_t first = own_ > 0 ? 0 : 1;
  const std::size_t end = own_ > 0 ? 1 : size_;
  for (std::size_t r = first; r < end; ++r)
    is_urgent ? doorbells_[r]->ring() : doorbells_[r]->ring_gently();
}

void NodeChannel::send(std::span<const std::byte> bytes, bool is_urgent) {
  if (!writer_) return;
  writer_->send(bytes);
  tell_readers(is_urgent);
}

// Returns all messages of one ring before those of the next ring. Wakes a writer that waits for
// space in the ring.
std::optional<NodeChannel::Message> NodeChannel::poll() {
  for (std::size_t tries = 0; tries < readers_.size(); ++tries) {
    const std::size_t reader = next_reader_;
    std::optional<std::vector<std::byte>> bytes = readers_[reader].next();
    const std::size_t source = own_ > 0 ? 0 : reader + 1;
    if (readers_[reader].take_has_made_room()) doorbells_[source]->ring_gently();
    if (bytes) return Message{source, std::move(*bytes)};
    next_reader_ = (next_reader_ + 1) % readers_.size();
  }
  return std::nullopt;
}

bool NodeChannel::flush() {
  if (!writer_ || writer_->is_flushed()) return true;
  if (writer_->flush()) tell_readers(false);
  return writer_->is_flushed();
}

// Readers without pending operations may sleep deeply, so this function rings their doorbells after
// each failed try.
void NodeChannel::flush_all(const WaitPolicy& policy) {
  for (Waiter waiter(policy); !flush(); waiter.pause("for the ranks of the node to read messages"))
    for (std::size_t r = 1; r < size_; ++r) doorbells_[r]->ring();
}

namespace {

constexpr int lowest_bit(int number) { return number & -number; }

}  // namespace

// The children of node n are n + b for each power of two b below the lowest set bit of n. The
// children of node 0 are all powers of two below node_count.
std::vector<int> child_nodes(int node, int node_count) {
  std::vector<int> children;
  for (int bit = 1; (node == 0 || bit < lowest_bit(node)) && node + bit < node_count; bit *= 2)
    children.push_back(node + bit);
  return children;
}

int subtree_end(int node, int node_count) {
  return node == 0 ? node_count : std::min(node + lowest_bit(node), node_count);
}

// Only leaders have children. The list begins with the children on this node, because
// send_to_children() sends one message to all of them and a separate message to each other child.
ControlTree::ControlTree(const Topology& topology) {
  ranks_of.push_back({topology.rank});
  if (topology.local_rank > 0) {
    parent = topology.ranks_of(topology.node).front();
    is_parent_local = true;
    return;
  }
  for (const int rank : topology.ranks_of(topology.node)) {
    if (rank == topology.rank) continue;
    children.push_back(rank);
    ranks_of.push_back({rank});
  }
  local_children = children.size();
  if (topology.node > 0)
    parent = topology.ranks_of(topology.node - lowest_bit(topology.node)).front();
  for (const int child : child_nodes(topology.node, topology.node_count)) {
    children.push_back(topology.ranks_of(child).front());
    std::vector<int> below;
    for (int rank = 0; rank < topology.size; ++rank)
      if (topology.node_of[rank] >= child &&
          topology.node_of[rank] < subtree_end(child, topology.node_count))
        below.push_back(rank);
    ranks_of.push_back(std::move(below));
  }
}

namespace {

void count(ControlNetwork::Traffic& traffic, std::span<const std::byte> bytes) {
  traffic.messages.fetch_add(1, std::memory_order_relaxed);
  traffic.bytes.fetch_add(bytes.size(), std::memory_order_relaxed);
}

}  // namespace

ControlNetwork::ControlNetwork(collectives::Transport& transport)
    : transport_(transport), tree_(transport.topology()), node_(transport) {
  const Topology& topology = transport.topology();
  if (topology.node_count > 1) channel_ = transport.make_message_channel();
  child_of_rank_.resize(static_cast<std::size_t>(topology.size));
  for (std::size_t child = 0; child < tree_.children.size(); ++child)
    child_of_rank_[static_cast<std::size_t>(tree_.children[child])] = child;
}

void ControlNetwork::send_message(int rank, std::span<const std::byte> bytes) {
  channel_->send(rank, bytes);
  count(between_nodes_, bytes);
}

void ControlNetwork::send_to_parent(std::span<const std::byte> bytes, bool is_urgent) {
  if (!tree_.is_parent_local) return send_message(tree_.parent, bytes);
  node_.send(bytes, is_urgent);
  count(in_node_, bytes);
}

// Sends to other nodes first, because messages between nodes take longer.
void ControlNetwork::send_to_children(std::span<const std::byte> bytes) {
  for (std::size_t child = tree_.local_children; child < tree_.children.size(); ++child)
    send_message(tree_.children[child], bytes);
  if (tree_.local_children == 0) return;
  node_.send(bytes);
  count(in_node_, bytes);
}

void ControlNetwork::flush_all() {
  if (tree_.local_children > 0) node_.flush_all(transport_.wait_policy());
}

// Polls shared memory first, because a poll for messages from other nodes usually calls MPI, which
// takes much longer.
std::optional<ControlNetwork::Message> ControlNetwork::poll() {
  if (auto message = node_.poll()) {
    if (!tree_.is_leader()) return Message{true, 0, std::move(message->bytes)};
    return Message{false, message->source - 1, std::move(message->bytes)};
  }
  if (!must_poll()) return std::nullopt;
  auto message = channel_->poll();
  if (!message) return std::nullopt;
  const bool is_from_parent = message->source == tree_.parent;
  return Message{is_from_parent,
                 is_from_parent ? 0 : child_of_rank_[static_cast<std::size_t>(message->source)],
                 std::move(message->bytes)};
}

}  // namespace horo::coordinator
