#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// How a tensor lies in memory, seen from the one before it in a list; of those without elements
/// nothing is asked. 1: it is so; 0: it is not. The least of all ranks' facts holds on all of them.
struct MemoryFacts {
  std::int8_t follows = 0;     ///< begins where that one ends
  std::int8_t precedes = 0;    ///< ends where that one begins: backward makes the last one first
  std::int8_t is_aligned = 0;  ///< begins at a word of 16 bytes
};

/// Of each tensor, on this rank.
std::vector<MemoryFacts> memory_facts(std::span<const TensorView> tensors);

/// Tensors of a list, [first, last), that are one stretch of memory: what is reduced where it lies.
struct MemorySpan {
  std::size_t first, last;
  void* data;
  std::size_t count;  ///< elements
};

/// The spans of `tensors`, all of one type, that are worth it to reduce in place: those of
/// `least_bytes` or more, and one that is all of them. A span is a tensor alone, or as many as lie
/// strictly one after the other, in the order of the list or its reverse; it begins at a word, as
/// collectives are slow elsewhere. Depends on the sizes and on `facts` alone: ranks that agree on
/// those have the same spans, each in its own memory.
std::vector<MemorySpan> memory_spans(std::span<const TensorView> tensors,
                                     std::span<const MemoryFacts> facts, std::size_t least_bytes);

}  // namespace horo::collectives
