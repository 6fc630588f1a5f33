#include "collectives/shared_memory/pipelined_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

std::uint32_t steps_for(std::size_t total, std::size_t per_step) {
  return static_cast<std::uint32_t>((total + per_step - 1) / per_step);
}

// Returns the intersection of two ranges of a stream. The intersection may be empty.
Range overlap(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Copies the part `window` of this rank's stream to `slot`. The whole stream is never stored.
void fill_slot(const AlltoallBlocks& blocks, int rank, int size, Range window, std::byte* slot,
               Stores stores) {
  std::size_t start = 0;
  for (int i = 1; i < size && start < window.end; ++i) {
    const auto block = blocks.to((rank + i) % size);
    const Range part = overlap(window, {start, start + block.size()});
    if (part.count() != 0)
      copy(slot + (part.begin - window.begin), block.data() + (part.begin - start), part.count(),
           stores);
    start += block.size();
  }
}

// Copies the data for this rank that is in the range `window` of the other ranks' streams. Begins
// with the preceding rank, whose stream begins with the block for this rank.
void empty_slots(NodeMemory& memory, const AlltoallBlocks& blocks, const AlltoallStreams& streams,
                 Range window, std::uint32_t step) {
  for (int i = 1; i < memory.size(); ++i) {
    const int peer = (memory.rank() + memory.size() - i) % memory.size();
    const auto block = blocks.from(peer);
    const std::size_t start = streams.starts[static_cast<std::size_t>(peer)];
    const Range part = overlap(window, {start, start + block.size()});
    if (part.count() == 0) continue;
    memory.wait_posted(peer, step);
    copy(block.data() + (part.begin - start), memory.slot(peer, step) + (part.begin - window.begin),
         part.count(), Stores::kPlain);
  }
}

}  // namespace

// The root may be up to kSlots steps ahead of the slowest reader. fence() precedes post(), because
// the release store of a flag does not order streaming stores. In the loop, the root publishes only
// `posted`, and the readers publish only `consumed`. finish() publishes the other flags, so each
// rank starts the next collective with all of its flags at the same step.
void pipelined_broadcast(NodeMemory& memory, const ScatteredBuffer& buffer, int root,
                         Stores stores) {
  const std::size_t per_step =
      std::min(memory.step_bytes() / buffer.element_bytes(), buffer.count());
  if (per_step == 0) return;
  const std::uint32_t steps = steps_for(buffer.count(), per_step);
  const std::uint32_t first_step = memory.begin_steps(steps, per_step * buffer.element_bytes());
  for (std::uint32_t k = 0; k < steps; ++k) {
    const std::uint32_t step = first_step + k;
    const std::size_t begin = k * per_step;
    const std::size_t end = std::min(begin + per_step, buffer.count());
    std::byte* slot = memory.slot(root, step);
    if (memory.rank() == root) {
      memory.wait_free(step);
      buffer.for_each_span(
          begin, end, [&](const std::byte* from, std::size_t first, std::size_t n) {
            copy(slot + first * buffer.element_bytes(), from, n * buffer.element_bytes(), stores);
          });
      fence(stores);
      memory.post(step);
    } else {
      memory.wait_posted(root, step);
      buffer.for_each_span(begin, end, [&](std::byte* to, std::size_t first, std::size_t n) {
        copy(to, slot + first * buffer.element_bytes(), n * buffer.element_bytes(), Stores::kPlain);
      });
      memory.consume(step);
    }
  }
  memory.finish(first_step + steps - 1);
}

// In iteration k, a rank posts step k and then reads step k - 1. It waits only for flags that its
// peers publish in earlier iterations: `posted` of step k - 1 and `consumed` of step k - kSlots.
// The ranks therefore cannot deadlock. pipelined_reduce_scatter() and pipelined_alltoall() have the
// same schedule.
void pipelined_allgather(NodeMemory& memory, std::span<const std::byte> input,
                         std::span<const std::size_t> bytes_of, std::span<std::byte> output,
                         Stores stores) {
  const std::size_t longest = *std::max_element(bytes_of.begin(), bytes_of.end());
  const std::size_t per_step = std::min(memory.step_bytes(), longest);
  const PartOffsets parts(bytes_of);
  std::byte* own = output.data() + parts[memory.rank()].begin;
  if (!input.empty() && own != input.data()) copy(own, input.data(), input.size(), Stores::kPlain);
  if (per_step == 0) return;
  const std::uint32_t steps = steps_for(longest, per_step);
  const std::uint32_t first_step = memory.begin_steps(steps, per_step);
  // Returns the offset and the size of the part that step k transfers, in the input of `rank`.
  const auto part = [&](int rank, std::uint32_t k) {
    const std::size_t begin = std::min(k * per_step, bytes_of[rank]);
    return std::pair{begin, std::min(begin + per_step, bytes_of[rank]) - begin};
  };
  for (std::uint32_t k = 0; k <= steps; ++k) {
    if (k < steps) {
      memory.wait_free(first_step + k);
      const auto [begin, bytes] = part(memory.rank(), k);
      copy(memory.slot(memory.rank(), first_step + k), input.data() + begin, bytes, stores);
      fence(stores);
      memory.post(first_step + k);
    }
    if (k == 0) continue;
    const std::uint32_t step = first_step + k - 1;
    for (int i = 1; i < memory.size(); ++i) {
      const int peer = (memory.rank() + i) % memory.size();
      const auto [begin, bytes] = part(peer, k - 1);
      memory.wait_posted(peer, step);
      copy(output.data() + parts[peer].begin + begin, memory.slot(peer, step), bytes,
           Stores::kPlain);
    }
    memory.consume(step);
  }
  memory.finish(first_step + steps - 1);
}

void pipelined_reduce_scatter(NodeMemory& memory, const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                              Stores stores) {
  const std::size_t element_bytes = size_of(type);
  const auto size = static_cast<std::size_t>(memory.size());
  const std::size_t most = *std::max_element(count_of.begin(), count_of.end());
  if (most == 0) return;
  // A slot has one part per rank. Each part consists of whole cache lines.
  const std::size_t part_bytes =
      std::min(memory.step_bytes() / size, most * element_bytes + kCacheLineBytes - 1) /
      kCacheLineBytes * kCacheLineBytes;
  const std::size_t per_step = part_bytes / element_bytes;
  const std::uint32_t steps = steps_for(most, per_step);
  const PartOffsets parts(count_of);
  const std::uint32_t first_step = memory.begin_steps(steps, size * part_bytes);
  const auto part = [&](std::size_t owner, std::uint32_t k) {
    const std::size_t begin = std::min(k * per_step, count_of[owner]);
    return std::pair{begin, std::min(begin + per_step, count_of[owner]) - begin};
  };
  const auto own_rank = static_cast<std::size_t>(memory.rank());
  std::vector<const std::byte*> sources(size);
  for (std::uint32_t k = 0; k <= steps; ++k) {
    if (k < steps) {
      memory.wait_free(first_step + k);
      std::byte* slot = memory.slot(memory.rank(), first_step + k);
      for (std::size_t owner = 0; owner < size; ++owner) {
        if (owner == own_rank) continue;
        const auto [begin, count] = part(owner, k);
        copy(slot + owner * part_bytes,
             input + (parts[static_cast<int>(owner)].begin + begin) * element_bytes,
             count * element_bytes, stores);
      }
      fence(stores);
      memory.post(first_step + k);
    }
    if (k == 0) continue;
    const std::uint32_t step = first_step + k - 1;
    const auto [begin, count] = part(own_rank, k - 1);
    for (std::size_t r = 0; r < size; ++r) {
      if (r != own_rank) memory.wait_posted(static_cast<int>(r), step);
      sources[r] = r == own_rank ? input + (parts[memory.rank()].begin + begin) * element_bytes
                                 : memory.slot(static_cast<int>(r), step) + own_rank * part_bytes;
    }
    reduce(type, op, sources, count, size, output + begin * element_bytes, Stores::kPlain);
    memory.consume(step);
  }
  memory.finish(first_step + steps - 1);
}

AlltoallStreams exchange_streams(NodeMemory& memory, const AlltoallBlocks& blocks) {
  const int size = memory.size();
  const auto ranks = static_cast<std::size_t>(size);
  // table[r] is the offset of the block for rank r in the stream of this rank. table[ranks] is the
  // length of that stream.
  std::vector<std::uint64_t> table(ranks + 1);
  for (int i = 1; i < size; ++i) {
    const int peer = (memory.rank() + i) % size;
    table[static_cast<std::size_t>(peer)] = table[ranks];
    table[ranks] += blocks.to(peer).size();
  }
  const std::uint32_t step = memory.begin_steps(1, table.size() * sizeof table[0]);
  memory.wait_free(step);
  std::memcpy(memory.slot(memory.rank(), step), table.data(), table.size() * sizeof table[0]);
  memory.post(step);

  AlltoallStreams streams{std::vector<std::size_t>(ranks), table[ranks]};
  for (int peer = 0; peer < size; ++peer) {
    if (peer == memory.rank()) continue;
    memory.wait_posted(peer, step);
    const auto number = [&](std::size_t index) {
      std::uint64_t value = 0;
      std::memcpy(&value, memory.slot(peer, step) + index * sizeof value, sizeof value);
      return value;
    };
    streams.starts[static_cast<std::size_t>(peer)] =
        number(static_cast<std::size_t>(memory.rank()));
    streams.longest = std::max<std::size_t>(streams.longest, number(ranks));
  }
  memory.finish(step);
  return streams;
}

void pipelined_alltoall(NodeMemory& memory, const AlltoallBlocks& blocks,
                        const AlltoallStreams& streams, Stores stores) {
  blocks.copy_own(memory.rank());
  const std::size_t per_step = std::min(memory.step_bytes(), streams.longest);
  if (per_step == 0) return;
  const auto steps = static_cast<std::uint32_t>((streams.longest + per_step - 1) / per_step);
  const std::uint32_t first_step = memory.begin_steps(steps, per_step);
  const auto window = [&](std::uint32_t k) { return Range{k * per_step, (k + 1) * per_step}; };
  for (std::uint32_t k = 0; k <= steps; ++k) {
    if (k < steps) {
      memory.wait_free(first_step + k);
      fill_slot(blocks, memory.rank(), memory.size(), window(k),
                memory.slot(memory.rank(), first_step + k), stores);
      fence(stores);
      memory.post(first_step + k);
    }
    if (k == 0) continue;
    const std::uint32_t step = first_step + k - 1;
    empty_slots(memory, blocks, streams, window(k - 1), step);
    memory.consume(step);
  }
  memory.finish(first_step + steps - 1);
}

}  // namespace horo::collectives
