#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace horo::coordinator {

/// A ring buffer in shared memory with one writer and one or several readers. Each reader receives
/// all bytes. Zeroed memory is an empty ring. A message that is longer than the ring is written and
/// read in parts.
struct ByteRing {
  struct alignas(64) Position {
    std::atomic<std::uint64_t> bytes{0};
    /// True while the writer keeps bytes that did not fit. Used only in `written`.
    std::atomic<bool> is_writer_waiting{false};
  };

  /// Returns the size of the shared memory in bytes. `capacity` must be a multiple of the size of a
  /// cache line. The result is then also a multiple of that size.
  static std::size_t bytes_needed(std::size_t capacity, std::size_t readers);
  ByteRing(std::byte* memory, std::size_t capacity, std::size_t readers);

  Position* written;           ///< total number of bytes written
  std::span<Position> read;    ///< read[r]: total number of bytes that reader r has read
  std::span<std::byte> bytes;  ///< the buffer
};

/// The writer of a ring. Used by one thread at a time.
class ByteRingWriter {
 public:
  explicit ByteRingWriter(ByteRing ring) : ring_(ring) {}

  /// Writes a copy of `message`. Keeps the bytes that do not fit for later calls of send() and
  /// flush(). Does not block.
  void send(std::span<const std::byte> message);
  /// Writes as many of the kept bytes as fit. Returns whether any bytes were written.
  bool flush();
  bool is_flushed() const { return outbox_.empty(); }
  /// Returns the size of the memory for kept bytes.
  std::size_t memory_bytes() const { return outbox_.capacity(); }

 private:
  std::uint64_t slowest_reader() const;
  std::size_t write(std::span<const std::byte> bytes);

  ByteRing ring_;
  std::vector<std::byte> outbox_;
  std::size_t sent_ = 0;  // bytes of outbox_ that are in the ring
};

/// One reader of a ring. Used by one thread at a time.
class ByteRingReader {
 public:
  ByteRingReader(ByteRing ring, std::size_t index) : ring_(ring), index_(index) {}

  /// Returns the next message if all of it has arrived. Does not block.
  std::optional<std::vector<std::byte>> next();
  /// Returns whether this reader has freed space since the last call while the writer waited for
  /// space.
  bool take_has_made_room() { return std::exchange(has_made_room_, false); }

 private:
  void read_all();

  ByteRing ring_;
  std::size_t index_;
  std::vector<std::byte> inbox_;
  std::size_t begin_ = 0;  // offset in inbox_ of the first byte that next() has not returned
  bool has_made_room_ = false;
};

}  // namespace horo::coordinator
