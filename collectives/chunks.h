#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace horo::collectives {

/// The elements or bytes [begin, end) of a buffer.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const { return end - begin; }
};

/// Divides `count` elements into `parts` consecutive chunks and returns chunk `index`. The first
/// `count % parts` chunks have one element more than the others. The chunks cover [0, count)
/// without overlap.
constexpr Range chunk_of(std::size_t count, std::size_t parts, std::size_t index) {
  const std::size_t base = count / parts;
  const std::size_t extra = count % parts;
  const std::size_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

/// Returns the sizes of all chunks; see chunk_of().
inline std::vector<std::size_t> chunk_sizes(std::size_t count, std::size_t parts) {
  std::vector<std::size_t> sizes(parts);
  for (std::size_t i = 0; i < parts; ++i) sizes[i] = chunk_of(count, parts, i).count();
  return sizes;
}

inline constexpr std::size_t kCacheLineBytes = 64;

/// Like chunk_of() with `ranks` parts, but each chunk consists of whole cache lines, except that
/// the last line of the buffer may be incomplete. If the buffer starts at a cache line boundary, no
/// cache line belongs to two chunks.
inline Range chunk_of_lines(std::size_t count, std::size_t element_bytes, int ranks, int rank) {
  const std::size_t per_line = kCacheLineBytes / element_bytes;
  const Range lines = chunk_of((count + per_line - 1) / per_line, ranks, rank);
  return {std::min(lines.begin * per_line, count), std::min(lines.end * per_line, count)};
}

/// Computes the ranges of consecutive parts from the sizes of the parts.
class PartOffsets {
 public:
  explicit PartOffsets(std::span<const std::size_t> sizes) {
    ends_.reserve(sizes.size());
    for (const std::size_t size : sizes) ends_.push_back(total() + size);
  }
  Range operator[](int part) const {
    const auto i = static_cast<std::size_t>(part);
    return {i == 0 ? 0 : ends_[i - 1], ends_[i]};
  }
  std::size_t total() const { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::vector<std::size_t> ends_;
};

}  // namespace horo::collectives
