#include "collectives/shared_memory/pipelined_copy.h"

#include <algorithm>
#include <vector>

#include "collectives/part_offsets.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kLine = 64;

std::uint32_t steps_for(std::size_t total, std::size_t per_step) {
  return static_cast<std::uint32_t>((total + per_step - 1) / per_step);
}

}  // namespace

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
      buffer.for_each_stretch(
          begin, end, [&](const std::byte* from, std::size_t first, std::size_t n) {
            copy(slot + first * buffer.element_bytes(), from, n * buffer.element_bytes(), stores);
          });
      fence(stores);
      memory.post(step);
    } else {
      memory.wait_posted(root, step);
      buffer.for_each_stretch(begin, end, [&](std::byte* to, std::size_t first, std::size_t n) {
        copy(to, slot + first * buffer.element_bytes(), n * buffer.element_bytes(), Stores::kPlain);
      });
      memory.consume(step);
    }
  }
  memory.finish(first_step + steps - 1);
}

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
  // The bytes of `rank` that step k carries.
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
  // Of a step, one part for each owner.
  const std::size_t part_bytes =
      std::min(memory.step_bytes() / size, most * element_bytes + kLine - 1) / kLine * kLine;
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

}  // namespace horo::collectives
