#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/cuda/clock.h"

namespace horo::fakes {

enum class MemoryKind { kDevice, kPinned, kNccl };

/// A range of memory that an operation reads or writes.
struct Range {
  const void* data;
  std::size_t bytes;
  bool is_written;
};

/// What performs an access, for texts of violations.
struct Actor {
  std::string call;
  std::string place;
};

/// The memory of the fake GPU and pinned memory. Each block has pages of its own, between pages
/// that cannot be accessed, and its addresses are never used again. New memory contains 0xff, so a
/// floating point value that was not written is NaN. Thread-safe.
class Memory {
 public:
  static Memory& of_process();

  /// The size of the memory of the GPU.
  static constexpr std::size_t kCapacity = std::size_t{8} << 30;

  /// Returns null if there is not enough memory.
  void* allocate(std::size_t bytes, MemoryKind kind, const char* call);
  /// It is a violation if `data` is not a block of this kind, if it was freed before, if bytes
  /// beside the block were overwritten, or if it is registered with a communicator.
  void free(void* data, MemoryKind kind, const char* call);

  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= begin_ && byte < end_;
  }
  /// The kind of the block at `address`; null if there is none.
  const MemoryKind* kind_of(const void* address);
  std::size_t free_bytes();
  bool are_in_one_block(const void* first, const void* second);

  /// It is a violation if the range is in the arena but not in one live block.
  void require_live(const Actor& actor, const void* data, std::size_t bytes);
  /// Records an access of an operation at `moment`. It is a violation if an earlier conflicting
  /// access does not happen before the operation.
  void note(const Actor& actor, const Moment& moment, const Range& range);

  /// Counts registrations with communicators. The range must be in one block.
  void add_registration(const Actor& actor, const void* data, int change);

  /// Describes the block at an address, also a freed one.
  std::string describe(const void* address);

 private:
  struct Stamp {
    std::size_t lane;
    std::uint64_t tick;
    std::shared_ptr<const Actor> actor;
  };
  struct Segment {
    std::size_t end;
    std::vector<Stamp> writers;  // at most one
    std::vector<Stamp> readers;  // since the last write
  };
  struct Block {
    std::byte* data;
    std::size_t bytes;
    MemoryKind kind;
    std::byte* pages;
    std::size_t page_bytes;
    std::string allocated_by, freed_by;  // freed_by is empty while the block is live
    int registrations = 0;
    std::map<std::size_t, Segment> segments;  // by their begin
  };

  Memory();
  // These functions require mutex_.
  Block* find(const void* address);
  void check(const Actor& actor, const void* data, std::size_t bytes);
  std::string describe_locked(const void* address);
  void check_borders(const Block& block, const char* call) const;
  static void split(Block& block, std::size_t at);
  static void require_order(const Actor& actor, const Moment& moment, const Stamp& earlier,
                            const char* conflict, const Block& block, std::size_t at);

  std::byte *begin_ = nullptr, *end_ = nullptr, *next_ = nullptr;
  std::mutex mutex_;  // guards all but begin_ and end_
  std::size_t used_ = 0;
  std::map<const std::byte*, Block> blocks_;  // by the begin of their pages; also freed ones
};

}  // namespace horo::fakes
