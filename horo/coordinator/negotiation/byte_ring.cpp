#include "horo/coordinator/negotiation/byte_ring.h"

#include <algorithm>
#include <cstring>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using Length = std::uint32_t;

}  // namespace

std::size_t ByteRing::bytes_needed(std::size_t capacity, std::size_t readers) {
  return sizeof(Position) * (1 + readers) + capacity;
}

ByteRing::ByteRing(std::byte* memory, std::size_t capacity, std::size_t readers)
    : written(reinterpret_cast<Position*>(memory)),
      read(written + 1, readers),
      bytes(memory + sizeof(Position) * (1 + readers), capacity) {}

void ByteRingWriter::send(std::span<const std::byte> message) {
  const auto length = static_cast<Length>(message.size());
  HORO_CHECK(length == message.size(), "a control message must be shorter than 4 GiB");
  // Drops bytes that are already written. Otherwise the outbox would grow without limit if the ring
  // never had room for all kept bytes. Each erase() moves fewer bytes than it drops.
  if (sent_ > outbox_.size() / 2) {
    outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
  const auto* raw = reinterpret_cast<const std::byte*>(&length);
  outbox_.insert(outbox_.end(), raw, raw + sizeof length);
  outbox_.insert(outbox_.end(), message.begin(), message.end());
  flush();
}

// If the bytes do not fit, sets is_writer_waiting and tries again, because a reader may have freed
// space before the flag was set. This function stores the flag before it loads the positions of the
// readers again. read_all() stores the position of its reader before it loads the flag. All four
// accesses are sequentially consistent. So either the second try finds the space, or the reader
// sees the flag. In the second case, NodeChannel::poll() of the reader rings the writer's doorbell.
bool ByteRingWriter::flush() {
  if (outbox_.empty()) return false;
  const std::span<const std::byte> left = std::span(outbox_).subspan(sent_);
  std::size_t count = write(left);
  if (count < left.size()) {
    ring_.written->is_writer_waiting.store(true);
    count += write(left.subspan(count));
  }
  sent_ += count;
  if (count == left.size()) {
    ring_.written->is_writer_waiting.store(false);
    outbox_.clear();
    sent_ = 0;
  }
  return count > 0;
}

std::uint64_t ByteRingWriter::slowest_reader() const {
  std::uint64_t slowest = ring_.read[0].bytes.load();
  for (const ByteRing::Position& reader : ring_.read.subspan(1))
    slowest = std::min(slowest, reader.bytes.load());
  return slowest;
}

// The load of `written` is relaxed, because only this writer stores `written`. The loads in
// slowest_reader() synchronize with the stores in read_all(). Therefore the readers have already
// copied the bytes that this function overwrites.
std::size_t ByteRingWriter::write(std::span<const std::byte> bytes) {
  const std::size_t capacity = ring_.bytes.size();
  const std::uint64_t written = ring_.written->bytes.load(std::memory_order_relaxed);
  const std::size_t room = capacity - static_cast<std::size_t>(written - slowest_reader());
  const std::size_t count = std::min(room, bytes.size());
  if (count == 0) return 0;
  const std::size_t at = written % capacity;
  const std::size_t first = std::min(count, capacity - at);
  std::memcpy(ring_.bytes.data() + at, bytes.data(), first);
  std::memcpy(ring_.bytes.data(), bytes.data() + first, count - first);
  ring_.written->bytes.store(written + count, std::memory_order_release);
  return count;
}

// Copies all bytes that have been written since the last call. The acquire load of `written` makes
// these bytes visible. The function stores the position of this reader after the copy, so the
// writer does not overwrite bytes during the copy.
void ByteRingReader::read_all() {
  ByteRing::Position& position = ring_.read[index_];
  const std::uint64_t read = position.bytes.load(std::memory_order_relaxed);
  const std::uint64_t written = ring_.written->bytes.load(std::memory_order_acquire);
  if (written == read) return;
  const std::size_t capacity = ring_.bytes.size();
  const auto count = static_cast<std::size_t>(written - read);
  const std::size_t at = read % capacity;
  const std::size_t first = std::min(count, capacity - at);
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  const std::byte* data = ring_.bytes.data();
  inbox_.insert(inbox_.end(), data + at, data + at + first);
  inbox_.insert(inbox_.end(), data, data + (count - first));
  // The store and the load are sequentially consistent; see ByteRingWriter::flush().
  position.bytes.store(written);
  if (ring_.written->is_writer_waiting.load()) has_made_room_ = true;
}

std::optional<std::vector<std::byte>> ByteRingReader::next() {
  for (bool is_fresh = false;; is_fresh = true) {
    const std::size_t here = inbox_.size() - begin_;
    Length length = 0;
    if (here >= sizeof length) {
      std::memcpy(&length, inbox_.data() + begin_, sizeof length);
      if (here - sizeof length >= length) {
        const auto* message = inbox_.data() + begin_ + sizeof length;
        begin_ += sizeof length + length;
        return std::vector<std::byte>(message, message + length);
      }
    }
    if (is_fresh) return std::nullopt;
    read_all();
  }
}

}  // namespace horo::coordinator
