#pragma once

#include <cstddef>
#include <vector>

namespace horo::collectives {

/// A range of elements.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const { return end - begin; }
};

/// Chunk `index` of `count` elements dealt to `parts` owners in order; the first `count % parts`
/// chunks have one element more. The chunks tile [0, count).
constexpr Range chunk_of(std::size_t count, std::size_t parts, std::size_t index) {
  const std::size_t base = count / parts;
  const std::size_t extra = count % parts;
  const std::size_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

/// The sizes of all chunks.
inline std::vector<std::size_t> chunk_sizes(std::size_t count, std::size_t parts) {
  std::vector<std::size_t> sizes(parts);
  for (std::size_t i = 0; i < parts; ++i) sizes[i] = chunk_of(count, parts, i).count();
  return sizes;
}

}  // namespace horo::collectives
