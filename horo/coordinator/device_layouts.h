#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "collectives/device/fused_layout.h"
#include "horo/base/tensor_view.h"

namespace horo::coordinator {

/// Makes the layouts with which a ChunkPipeline reduces the tensors of a response, and caches them
/// for later calls with the same tensors. A layout depends only on the sizes of the constructor and
/// on the addresses, types and sizes of the tensors. All of these are compared, so memory may be
/// freed and used for other tensors at any time. Used by one thread at a time.
///
/// A tensor that fills a chunk or the buffer is reduced in place, and so is the only tensor of its
/// type. Packing such a tensor would cost two passes over its elements, but save no collective. The
/// other tensors are packed into the buffer. The rule ignores addresses, which may differ between
/// ranks. Collectives on a tensor that does not start at a multiple of 16 bytes are slow.
class DeviceLayouts {
 public:
  using Layouts = std::vector<collectives::FusedLayout>;

  /// `buffer_bytes` is the size of the fused buffer and must hold at least TileTable::kAlignment
  /// elements. `chunk_bytes` is that of FusedLayout. `cache_bytes` limits the memory of the cached
  /// layouts.
  DeviceLayouts(std::size_t buffer_bytes, std::size_t chunk_bytes,
                std::size_t cache_bytes = std::size_t{4} << 20)
      : buffer_bytes_(buffer_bytes), chunk_bytes_(chunk_bytes), cache_bytes_(cache_bytes) {}

  /// Returns one or more layouts, which together contain the elements of all `tensors`. Each layout
  /// needs at most `buffer_bytes` of the buffer. Ranks that pass tensors of equal types and sizes
  /// get layouts with equal chunks. The result is valid until the next call. Cost of a repeated
  /// call: a hash of the list.
  const Layouts& of(std::span<const TensorView> tensors);

  /// The number of calls for which the layouts were not in the cache.
  std::size_t misses() const { return misses_; }
  /// The memory of the cached layouts in bytes. Exceeds the limit only if there is only one list.
  std::size_t cached_bytes() const { return cached_bytes_; }

 private:
  struct Part {
    const void* data;
    std::size_t count;
    DataType type;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Cached {
    std::uint64_t hash;
    std::vector<Part> tensors;
    Layouts layouts;
    std::size_t bytes;
  };

  Layouts make(std::span<const TensorView> tensors) const;
  void drop(std::list<Cached>::iterator cached);

  const std::size_t buffer_bytes_, chunk_bytes_, cache_bytes_;
  std::list<Cached> cached_;  // the most recently used first
  std::unordered_map<std::uint64_t, std::list<Cached>::iterator> by_hash_;
  std::size_t cached_bytes_ = 0;
  std::size_t misses_ = 0;
};

}  // namespace horo::coordinator
