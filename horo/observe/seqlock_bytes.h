#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace horo::observe {

/// Bytes in memory that processes share, replaced as a whole by one writer and read by anyone: a
/// sequence lock (Lameter, "Effective synchronization on Linux/NUMA systems", 2005), whose writer
/// never waits. Zero-initialised memory is an empty one.
template <std::size_t kCapacity>
class SeqlockBytes {
 public:
  /// By one thread at a time. Requires at most kCapacity bytes.
  void write(std::span<const std::byte> bytes) {
    const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    // Release: who sees one of these words sees that the sequence is odd, or has gone on.
    length_.store(bytes.size(), std::memory_order_release);
    for (std::size_t i = 0; i * sizeof(Word) < bytes.size(); ++i) {
      Word word = 0;
      const std::size_t at = i * sizeof(Word);
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      words_[i].store(word, std::memory_order_release);
    }
    sequence_.store(sequence + 2, std::memory_order_release);
  }

  /// What was last written; empty at first. nullopt if the writer is always in the middle of it, as
  /// when its process was stopped there.
  std::optional<std::vector<std::byte>> read() const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::uint64_t before = sequence_.load(std::memory_order_acquire);
      if (before % 2 != 0) continue;
      std::vector<std::byte> bytes(
          std::min<std::size_t>(length_.load(std::memory_order_acquire), kCapacity));
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
        const Word word = words_[at / sizeof(Word)].load(std::memory_order_acquire);
        std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
      }
      if (sequence_.load(std::memory_order_relaxed) == before) return bytes;
    }
    return std::nullopt;
  }

 private:
  using Word = std::uint64_t;
  static_assert(kCapacity % sizeof(Word) == 0);
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> length_{0};
  std::array<std::atomic<Word>, kCapacity / sizeof(Word)> words_{};
};

}  // namespace horo::observe
