#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// Keeps the kernels that a layer has built, one per input shape, because building one costs far
/// more than a call: training, the last short batch and evaluation alternate between a few shapes.
/// The least recently used goes when there are too many; whoever still holds it keeps it alive.
/// Used from one thread at a time.
template <typename Kernel>
class ShapeCache {
 public:
  static constexpr std::size_t kCapacity = 8;

  /// The kernel for `shape`; `make()` returns a new std::shared_ptr<Kernel> if there is none yet.
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
