#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace horo::coordinator {

/// A ring of bytes in shared memory: one writer, one or several readers that each see everything.
/// Zeroed memory is an empty ring. Messages may be longer than the ring: they pass through it in
/// parts.
struct ByteRing {
  struct alignas(64) Position {
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<bool> is_writer_waiting{false};  ///< for room; of `written`
  };

  /// Bytes of shared memory, a multiple of a cache line. `capacity` is one too.
  static std::size_t bytes_needed(std::size_t capacity, std::size_t readers);
  ByteRing(std::byte* memory, std::size_t capacity, std::size_t readers);

  Position* written;           ///< bytes ever written
  std::span<Position> read;    ///< read[r]: bytes that reader r has taken
  std::span<std::byte> bytes;  ///< the ring itself
};

/// The writing end. Used by one thread at a time.
class ByteRingWriter {
 public:
  explicit ByteRingWriter(ByteRing ring) : ring_(ring) {}

  /// Sends a copy of `message`, followed by what the ring has no room for yet on later calls of
  /// flush().
  void send(std::span<const std::byte> message);
  /// Writes as much of what is left as there is room for. Returns whether any bytes were written.
  bool flush();
  bool is_flushed() const { return outbox_.empty(); }
  /// What bytes that wait for room take.
  std::size_t memory_bytes() const { return outbox_.capacity(); }

 private:
  std::uint64_t slowest_reader() const;
  std::size_t write(std::span<const std::byte> bytes);

  ByteRing ring_;
  std::vector<std::byte> outbox_;
  std::size_t sent_ = 0;  // bytes of outbox_ that are in the ring
};

/// A reading end. Used by one thread at a time.
class ByteRingReader {
 public:
  ByteRingReader(ByteRing ring, std::size_t index) : ring_(ring), index_(index) {}

  /// The next whole message, if it has come.
  std::optional<std::vector<std::byte>> next();
  /// Whether, since the last call, room was made that the writer waits for.
  bool take_has_made_room() { return std::exchange(has_made_room_, false); }

 private:
  void read_all();

  ByteRing ring_;
  std::size_t index_;
  std::vector<std::byte> inbox_;
  std::size_t begin_ = 0;  // of what in inbox_ has not been handed out
  bool has_made_room_ = false;
};

}  // namespace horo::coordinator
