#include "collectives/hierarchical/hierarchical_allreduce.h"

#include <algorithm>

#include "collectives/chunks.h"
#include "collectives/reduce/division.h"
#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

void allreduce_block(Hierarchy& h, DataType type, std::byte* data, std::size_t count, ReduceOp op) {
  const std::size_t width = size_of(type);
  const auto columns = static_cast<std::size_t>(h.layout.columns());
  const std::vector<std::size_t> count_of = h.layout.for_local_ranks(chunk_sizes(count, columns));
  const std::size_t own = count_of[static_cast<std::size_t>(h.layout.local_rank())];
  std::byte* shard = at_least(h.shard, own * width);

  h.node.reduce_scatter(data, type, count_of, shard, without_division(op));
  if (h.column != nullptr) {
    if (h.is_wire_narrow) divide_if_average(type, op, shard, own, h.layout.size());
    h.column->allreduce(ScatteredBuffer(type, shard, own), without_division(op));
    if (!h.is_wire_narrow) divide_if_average(type, op, shard, own, h.layout.size());
  }
  std::vector<std::size_t> bytes_of = count_of;
  for (std::size_t& bytes : bytes_of) bytes *= width;
  h.node.allgather({shard, own * width}, bytes_of, {data, count * width});
}

}  // namespace

void hierarchical_allreduce(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op) {
  const std::size_t width = buffer.element_bytes();
  const std::size_t block_count = std::max<std::size_t>(h.block_bytes / width, 1);
  for (std::size_t begin = 0; begin < buffer.count(); begin += block_count) {
    const Range range{begin, std::min(begin + block_count, buffer.count())};
    if (std::byte* data = contiguous_address(buffer, range)) {
      allreduce_block(h, buffer.type(), data, range.count(), op);
      continue;
    }
    std::byte* staged = at_least(h.block, range.count() * width);
    gather(buffer, range, staged);
    allreduce_block(h, buffer.type(), staged, range.count(), op);
    scatter(buffer, range, staged);
  }
}

}  // namespace horo::collectives
