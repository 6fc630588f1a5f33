#include "horo/coordinator/control_network.h"

namespace horo::coordinator {
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
