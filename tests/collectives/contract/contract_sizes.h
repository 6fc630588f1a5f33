#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/collectives/contract/collectives_contract.h"

namespace horo::collectives::contract {

/// The sizes to test, in units of `unit_bytes`: zero, very small sizes, sizes near the number of
/// ranks and near each boundary of the implementation, several times the largest boundary, and odd
/// sizes.
inline std::vector<std::size_t> sizes_for(const Backend& backend, int ranks,
                                          std::size_t unit_bytes) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> sizes = {0, 1, 2, n - 1, n, n + 1, 17};
  std::size_t largest = 1000;
  for (const std::size_t boundary : backend.boundaries) {
    const std::size_t units = boundary / unit_bytes;
    sizes.insert(sizes.end(), {units - 1, units, units + 1});
    largest = std::max(largest, units);
  }
  sizes.push_back(3 * largest + largest / 3 * 2 + 1);
  std::ranges::sort(sizes);
  const auto doubled = std::ranges::unique(sizes);
  sizes.erase(doubled.begin(), doubled.end());
  return sizes;
}

/// Uneven parts: every third rank has an empty part, and the others have `base` plus a varying
/// number.
inline std::vector<std::size_t> uneven_parts(int ranks, std::size_t base) {
  std::vector<std::size_t> parts;
  for (int r = 0; r < ranks; ++r)
    parts.push_back(r % 3 == 1 ? 0 : base + static_cast<std::size_t>(r) * 13 % 7);
  return parts;
}

inline std::vector<std::size_t> even_parts(int ranks, std::size_t each) {
  return std::vector<std::size_t>(static_cast<std::size_t>(ranks), each);
}

}  // namespace horo::collectives::contract
