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
/// all messages. Zeroed memory is an empty ring. A message that is longer than the ring is written
/// and read in parts. Does not own the memory.
struct ByteRing {
  struct alignas(64) Position {
    std::atomic<std::uint64_t> bytes{0};
    /// True while the writer keeps bytes that did not fit. Used only in `written`.
    std::atomic<bool> is_writer_waiting{false};
  };

  /// Returns the size of the memory of a ring whose buffer has `capacity` bytes. `capacity` must be
  /// a multiple of 64. The result is then also a multiple of 64.
  static std::size_t bytes_needed(std::size_t capacity, std::size_t readers);
  /// `memory` must have bytes_needed(capacity, readers) bytes and be aligned to 64 bytes.
  ByteRing(std::byte* memory, std::size_t capacity, std::size_t readers);

  Position* written;           ///< total number of bytes written
  std::span<Position> read;    ///< read[r]: total number of bytes that reader r has read
  std::span<std::byte> bytes;  ///< the buffer
};

/// The writer of a ring. Used by one thread at a time.
class ByteRingWriter {
 public:
  explicit ByteRingWriter(ByteRing ring) : ring_(ring) {}

  /// Writes a copy of `message`. Keeps the bytes that do not fit into the ring for later calls of
  /// send() and flush(). Does not block. Throws InvalidArgument if `message` has 4 GiB or more.
  void send(std::span<const std::byte> message);
  /// Writes as many of the kept bytes as fit. Returns whether any bytes were written.
  bool flush();
  /// Returns whether no kept bytes are left.
  bool is_flushed() const { return outbox_.empty(); }
  /// Returns the number of bytes that are allocated for kept bytes.
  std::size_t memory_bytes() const { return outbox_.capacity(); }

 private:
  std::uint64_t slowest_reader() const;
  std::size_t write(std::span<const std::byte> bytes);

  ByteRing ring_;
  std::vector<std::byte> outbox_;
  std::size_t sent_ = 0;  // number of bytes at the start of outbox_ that are already written
};

/// One reader of a ring. Used by one thread at a time.
class ByteRingReader {
 public:
  ByteRingReader(ByteRing ring, std::size_t index) : ring_(ring), index_(index) {}

  /// Returns the next message if all of it has arrived. Does not block.
  std::optional<std::vector<std::byte>> next();
  /// Returns whether this reader has freed space since the last call while the writer waited for
  /// space. The caller must then notify the writer.
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
