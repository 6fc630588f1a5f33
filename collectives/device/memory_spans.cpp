#include "collectives/device/memory_spans.h"

namespace horo::collectives {
namespace {

// The alignment of spans, in bytes.
constexpr std::size_t kWord = 16;

const std::byte* begin_of(const TensorView& tensor) {
  return static_cast<const std::byte*>(tensor.data());
}
const std::byte* end_of(const TensorView& tensor) { return begin_of(tensor) + tensor.bytes(); }

/// A run of tensors that are adjacent in memory, in one direction.
struct Run {
  std::size_t first, last;  // [first, last)
  std::size_t lowest;       // the tensor with the lowest address
  std::size_t count;
  bool may_rise, may_fall;  // possible directions of the next tensor
};

/// Appends tensor t to `run` if the tensor is adjacent to the run in a possible direction. Returns
/// whether it has appended the tensor.
bool extend(Run& run, std::size_t t, const TensorView& tensor, const MemoryFacts& fact) {
  const bool rises = run.may_rise && fact.follows == 1;
  const bool falls = run.may_fall && fact.precedes == 1;
  if (!rises && !falls) return false;
  run.last = t + 1;
  run.count += tensor.count();
  run.may_rise = rises;
  run.may_fall = !rises;
  if (!rises) run.lowest = t;
  return true;
}

}  // namespace

std::vector<MemoryFacts> memory_facts(std::span<const TensorView> tensors) {
  std::vector<MemoryFacts> facts(tensors.size());
  const TensorView* before = nullptr;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].count() == 0) continue;
    facts[t].is_aligned = reinterpret_cast<std::uintptr_t>(tensors[t].data()) % kWord == 0;
    if (before != nullptr) {
      facts[t].follows = begin_of(tensors[t]) == end_of(*before);
      facts[t].precedes = end_of(tensors[t]) == begin_of(*before);
    }
    before = &tensors[t];
  }
  return facts;
}

// Small spans are left for the fused buffer, because a collective for each of them would cost more
// than the copies. A span that contains all tensors is reduced in place whatever its size, because
// then no buffer is needed.
std::vector<MemorySpan> memory_spans(std::span<const TensorView> tensors,
                                     std::span<const MemoryFacts> facts, std::size_t least_bytes) {
  std::vector<Run> runs;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].count() == 0) continue;
    if (runs.empty() || !extend(runs.back(), t, tensors[t], facts[t]))
      runs.push_back({t, t + 1, t, tensors[t].count(), true, true});
  }
  std::vector<MemorySpan> spans;
  for (const Run& run : runs) {
    const TensorView& lowest = tensors[run.lowest];
    const bool is_large = run.count * size_of(lowest.type()) >= least_bytes;
    if ((is_large || runs.size() == 1) && facts[run.lowest].is_aligned == 1)
      spans.push_back({run.first, run.last, lowest.data(), run.count});
  }
  return spans;
}

}  // namespace horo::collectives
