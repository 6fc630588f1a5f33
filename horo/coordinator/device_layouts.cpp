#include "horo/coordinator/device_layouts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collectives/device/memory_spans.h"
#include "horo/base/hash.h"
#include "horo/base/text/quantity.h"
#include "horo/coordinator/executor.h"

namespace horo::coordinator {
namespace {

using collectives::FusedLayout;
using collectives::MemoryFacts;
using collectives::MemorySpan;
using collectives::TileTable;

// Divides tensors of one type into lists, so that the FusedLayout of each list needs at most
// `buffer_bytes` of the fused buffer. May split a tensor into parts, which are in different lists.
// Each part begins at a multiple of TileTable::kAlignment elements in the buffer, so `used`
// includes the gap after each part. If `buffer_bytes` held fewer elements than this alignment, the
// loop would not end.
std::vector<std::vector<TensorView>> cut_to_fit(std::span<const TensorView> tensors,
                                                std::size_t buffer_bytes) {
  std::vector<std::vector<TensorView>> lists;
  std::size_t used = 0;
  for (const TensorView& tensor : tensors) {
    const std::size_t width = size_of(tensor.type());
    const std::size_t room = buffer_bytes / width / TileTable::kAlignment * TileTable::kAlignment;
    for (std::size_t done = 0; done < tensor.count();) {
      if (lists.empty() || used == room) {
        lists.emplace_back();
        used = 0;
      }
      const std::size_t count = std::min(tensor.count() - done, room - used);
      lists.back().emplace_back(static_cast<std::byte*>(tensor.data()) + done * width,
                                tensor.type(), Shape{count});
      done += count;
      used += round_up(count, TileTable::kAlignment);
    }
  }
  return lists;
}

// The spans that are reduced in place, each of one tensor. The facts are the same on all ranks,
// although the addresses may differ.
std::vector<MemorySpan> spans_of(std::span<const TensorView> tensors, std::size_t least_bytes) {
  const std::vector<MemoryFacts> facts(tensors.size(), MemoryFacts{.is_aligned = 1});
  return collectives::memory_spans(tensors, facts, least_bytes);
}

// Appends the layouts of the tensors of one type.
void add_layouts(std::vector<FusedLayout>& layouts, std::span<const TensorView> tensors,
                 std::size_t buffer_bytes, std::size_t chunk_bytes) {
  const DataType type = tensors.front().type();
  std::vector<TensorView> packed(tensors.begin(), tensors.end());
  std::vector<TensorView> in_place;
  for (const MemorySpan& span : spans_of(tensors, std::min(chunk_bytes, buffer_bytes)))
    in_place.push_back(std::exchange(packed[span.first], TensorView()));
  if (!in_place.empty()) layouts.emplace_back(in_place, type, chunk_bytes, spans_of(in_place, 0));
  for (const std::vector<TensorView>& list : cut_to_fit(packed, buffer_bytes))
    layouts.emplace_back(list, type, chunk_bytes);
}

std::size_t bytes_of(const FusedLayout& layout) {
  return sizeof layout + layout.tables().size() * sizeof(TileTable) +
         layout.chunks().size() * sizeof(FusedLayout::Chunk) +
         (layout.spans().size() + layout.in_place().size()) * sizeof(FusedLayout::Span);
}

}  // namespace

DeviceLayouts::Layouts DeviceLayouts::make(std::span<const TensorView> tensors) const {
  Layouts layouts;
  for (const DataType type : types_of(tensors)) {
    std::vector<TensorView> of_type;
    std::ranges::copy_if(tensors, std::back_inserter(of_type),
                         [&](const TensorView& tensor) { return tensor.type() == type; });
    add_layouts(layouts, of_type, buffer_bytes_, chunk_bytes_);
  }
  if (layouts.empty()) layouts.emplace_back(tensors.first(0), DataType::kFloat32, chunk_bytes_);
  return layouts;
}

// If two lists have the same hash, the later one replaces the earlier one.
const DeviceLayouts::Layouts& DeviceLayouts::of(std::span<const TensorView> tensors) {
  std::vector<Part> parts;
  Hash hash;
  for (const TensorView& tensor : tensors) {
    parts.push_back({tensor.data(), tensor.count(), tensor.type()});
    hash.add(reinterpret_cast<std::uintptr_t>(tensor.data()))
        .add(tensor.count())
        .add(static_cast<std::uint64_t>(tensor.type()));
  }
  if (const auto found = by_hash_.find(hash.value()); found != by_hash_.end()) {
    if (found->second->tensors == parts) {
      cached_.splice(cached_.begin(), cached_, found->second);
      return cached_.front().layouts;
    }
    drop(found->second);
  }
  ++misses_;
  Layouts layouts = make(tensors);
  std::size_t bytes = sizeof(Cached) + parts.size() * sizeof(Part);
  for (const FusedLayout& layout : layouts) bytes += bytes_of(layout);
  while (!cached_.empty() && cached_bytes_ + bytes > cache_bytes_) drop(std::prev(cached_.end()));
  cached_.push_front({hash.value(), std::move(parts), std::move(layouts), bytes});
  by_hash_[hash.value()] = cached_.begin();
  cached_bytes_ += bytes;
  return cached_.front().layouts;
}

void DeviceLayouts::drop(std::list<Cached>::iterator cached) {
  cached_bytes_ -= cached->bytes;
  by_hash_.erase(cached->hash);
  cached_.erase(cached);
}

}  // namespace horo::coordinator
