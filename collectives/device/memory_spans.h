#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// The position of a tensor in memory, relative to the preceding non-empty tensor of a list.
/// Undefined for tensors without elements. Values are 1 (true) or 0 (false), so the minimum over
/// all ranks is 1 if the fact holds on all of them.
struct MemoryFacts {
  std::int8_t follows = 0;     ///< starts at the end of the preceding tensor
  std::int8_t precedes = 0;    ///< ends at the start of the preceding tensor, as gradients often do
  std::int8_t is_aligned = 0;  ///< starts at a multiple of 16 bytes
};

/// Returns the facts of each tensor on this rank.
std::vector<MemoryFacts> memory_facts(std::span<const TensorView> tensors);

/// The tensors [first, last) of a list, which form one contiguous range of memory.
struct MemorySpan {
  std::size_t first, last;
  void* data;
  std::size_t count;  ///< elements
};

/// Returns the spans of `tensors`, all of one type, that are worth reducing in place: spans of
/// `least_bytes` or more, and a span that contains all tensors. A span is one tensor, or several
/// that are adjacent in memory, in the order of the list or in reverse order. Spans start at a
/// multiple of 16 bytes, because collectives are slow on unaligned memory. Depends only on the
/// sizes and on `facts`, so ranks that agree on those have the same spans, each in its own memory.
std::vector<MemorySpan> memory_spans(std::span<const TensorView> tensors,
                                     std::span<const MemoryFacts> facts, std::size_t least_bytes);

}  // namespace horo::collectives
