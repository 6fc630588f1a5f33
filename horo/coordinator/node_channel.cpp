#include "horo/coordinator/node_channel.h"

#include <new>

namespace horo::coordinator {
namespace {

// Hundreds of cached operations, or dozens that are new. What does not fit waits in the sender.
constexpr std::size_t kUpBytes = 8 * 1024;
constexpr std::size_t kDownBytes = 32 * 1024;

std::size_t up_bytes() { return ByteRing::bytes_needed(kUpBytes, 1); }

}  // namespace

NodeChannel::NodeChannel(collectives::Transport& transport)
    : own_(static_cast<std::size_t>(transport.topology().local_rank)),
      size_(static_cast<std::size_t>(transport.topology().local_size)) {
  const std::size_t others = size_ - 1;
  // A rank that is alone on its node takes part if there are others that are not.
  if (transport.topology().size > transport.topology().node_count)
    region_ = transport.make_node_region(size_ * sizeof(Doorbell) + others * up_bytes() +
                                         ByteRing::bytes_needed(kDownBytes, others));
  if (size_ == 1) {
    region_.reset();
    doorbells_.push_back(&lone_doorbell_);
    return;
  }
  // Zeroed memory is what all of these begin as, so nobody initialises it: a slow rank would undo
  // what a faster one has written.
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

void NodeChannel::flush_all(const WaitPolicy& policy) {
  for (Waiter waiter(policy); !flush(); waiter.pause("for the node's ranks to take in messages"))
    for (std::size_t r = 1; r < size_; ++r) doorbells_[r]->ring();
}

}  // namespace horo::coordinator
