#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/chunks.h"

namespace horo::collectives {

/// Ranges of parts of given sizes that lie one after the other.
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
