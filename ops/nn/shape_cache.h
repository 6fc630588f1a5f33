#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// Caches the kernels of a layer, one per input shape. Building a kernel costs far more than a
/// call. A job alternates between a few shapes: those of training, of the last short batch and of
/// evaluation. A full cache drops the least recently used kernel; its other owners keep it alive.
/// Used from one thread at a time.
template <typename Kernel>
class ShapeCache {
 public:
  static constexpr std::size_t kCapacity = 8;

  /// Returns the kernel for `shape`. If it is not cached, `make()` builds it and returns a
  /// std::shared_ptr<Kernel>.
  template <typename Make>
  const std::shared_ptr<Kernel>& get(const Shape& shape, Make make) {
    auto found = std::find_if(entries_.begin(), entries_.end(),
                              [&](const Entry& entry) { return entry.first == shape; });
    if (found == entries_.end()) {
      Entry entry(shape, make());
      if (entries_.size() == kCapacity) entries_.pop_back();
      found = entries_.insert(entries_.end(), std::move(entry));
    }
    std::rotate(entries_.begin(), found, found + 1);  // most recently used first
    return entries_.front().second;
  }

 private:
  using Entry = std::pair<Shape, std::shared_ptr<Kernel>>;
  std::vector<Entry> entries_;
};

}  // namespace horo::ops
