#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// Facts about the address of a tensor in a list. `follows` and `precedes` compare the address with
/// that of the preceding non-empty tensor of the list. Values are 1 (true) or 0 (false), so the
/// minimum over all ranks is 1 only if the fact holds on all ranks. All values are 0 for a tensor
/// without elements.
struct MemoryFacts {
  std::int8_t follows = 0;     ///< the tensor starts at the end of the preceding tensor
  std::int8_t precedes = 0;    ///< the tensor ends at the start of the preceding tensor
  std::int8_t is_aligned = 0;  ///< the tensor starts at a multiple of 16 bytes
};

/// Returns the facts of each tensor, on this rank.
std::vector<MemoryFacts> memory_facts(std::span<const TensorView> tensors);

/// The tensors [first, last) of a list, which together form one contiguous range of memory.
struct MemorySpan {
  std::size_t first, last;
  void* data;
  std::size_t count;  ///< elements
};

/// Returns the spans of `tensors` that should be reduced in place. All tensors must have one type.
/// A span is one tensor, or several tensors that are adjacent in memory, in the order of the list
/// or in reverse order. A span is returned if it starts at a multiple of 16 bytes and either has
/// `least_bytes` or more, or contains all non-empty tensors. (Collectives are slow on unaligned
/// memory.) Apart from the addresses, the result depends only on the type and the sizes of the
/// tensors, `facts` and `least_bytes`. Ranks on which these are equal get spans of the same
/// tensors.
std::vector<MemorySpan> memory_spans(std::span<const TensorView> tensors,
                                     std::span<const MemoryFacts> facts, std::size_t least_bytes);

}  // namespace horo::collectives
