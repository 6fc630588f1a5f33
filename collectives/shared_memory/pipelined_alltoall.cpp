#include "collectives/shared_memory/pipelined_alltoall.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

// The part of a stream that both ranges cover; empty if there is none.
Range overlap(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

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

// Nearest first: with equal blocks, that is who is sending to this rank.
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

AlltoallStreams exchange_streams(NodeMemory& memory, const AlltoallBlocks& blocks) {
  const int size = memory.size();
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::uint64_t> table(ranks + 1);  // by reader, then the length
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
