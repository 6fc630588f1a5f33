#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "collectives/buffers.h"

namespace horo::collectives::contract {

/// The division of an array into pieces, and their alignment.
enum class Cut { kWhole, kOddPieces };

/// An array of T in one piece, or in pieces of 1, 2, ... elements and empty ones at odd addresses,
/// with guard bytes between them.
template <Element T>
class PiecedArray {
 public:
  PiecedArray(std::size_t count, Cut cut) : buffer_(data_type_of<T>) {
    const std::size_t longest = 61;
    std::vector<std::size_t> counts;
    if (cut == Cut::kWhole) {
      counts.push_back(count);
    } else {
      for (std::size_t left = count, next = 1; left > 0; next = (next * 5 + 3) % longest) {
        counts.push_back(std::min(left, next));
        left -= counts.back();
      }
    }
    memory_.assign(count * sizeof(T) + (counts.size() + 1) * kGap + 64, kGuard);
    std::size_t at = cut == Cut::kWhole ? 16 : kGap;
    for (const std::size_t n : counts) {
      buffer_.add(memory_.data() + at, n);
      for (std::size_t i = 0; i < n; ++i) offsets_.push_back(at + i * sizeof(T));
      at += n * sizeof(T) + kGap;
    }
  }

  const ScatteredBuffer& buffer() const { return buffer_; }
  std::size_t count() const { return offsets_.size(); }
  void set(std::size_t i, T value) {
    std::memcpy(memory_.data() + offsets_[i], &value, sizeof value);
  }
  T get(std::size_t i) const {
    T value;
    std::memcpy(&value, memory_.data() + offsets_[i], sizeof value);
    return value;
  }
  /// Whether all bytes outside the pieces are unchanged.
  bool guards_are_intact() const {
    std::size_t at = 0;
    for (const std::size_t offset : offsets_) {
      for (; at < offset; ++at)
        if (memory_[at] != kGuard) return false;
      at = offset + sizeof(T);
    }
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(at), memory_.end(),
                       [](std::byte b) { return b == kGuard; });
  }

 private:
  static constexpr std::size_t kGap = 7;
  static constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> memory_;
  std::vector<std::size_t> offsets_;
  ScatteredBuffer buffer_;
};

}  // namespace horo::collectives::contract
