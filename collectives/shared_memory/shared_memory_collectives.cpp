#include "collectives/shared_memory/shared_memory_collectives.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "collectives/shared_memory/pipelined_collectives.h"
#include "collectives/shared_memory/shared_memory_allreduce.h"

namespace horo::collectives {

// post() and wait_posted() make the inputs of all ranks visible before any rank reads them. The
// chunks of the ranks are disjoint, so ranks write without further synchronization. A rank returns
// when all chunks are reduced. Its buffer is then complete, and no peer accesses the buffer any
// more. The step uses no slot, so no wait_free() is needed.
void mapped_allreduce(NodeMemory& memory, const MappedBuffer& buffer, ReduceOp op) {
  const DataType type = buffer.own().type();
  const std::uint32_t step = memory.begin_steps(1, 0);
  memory.post(step);
  for (int peer = 0; peer < memory.size(); ++peer)
    if (peer != memory.rank()) memory.wait_posted(peer, step);

  const Range chunk =
      chunk_of_lines(buffer.own().count(), size_of(type), memory.size(), memory.rank());
  std::vector<const std::byte*> sources;
  buffer.for_each_span(chunk.begin, chunk.end,
                       [&](std::span<std::byte* const> addresses, std::size_t, std::size_t n) {
                         sources.assign(addresses.begin(), addresses.end());
                         // Each line has just been read, so plain stores find it in the cache.
                         reduce(type, op, sources, n, static_cast<std::size_t>(memory.size()),
                                addresses, Stores::kPlain);
                       });
  memory.publish_reduced(step);
  for (int peer = 0; peer < memory.size(); ++peer)
    if (peer != memory.rank()) memory.wait_reduced(peer, step);
  memory.consume(step);
}

std::size_t SharedMemoryCollectives::bytes_needed(int ranks, const Options& options) {
  return NodeMemory::bytes_needed(ranks, options.segment_bytes, options.direct_bytes);
}

SharedMemoryCollectives::SharedMemoryCollectives(std::unique_ptr<SharedRegion> region, int rank,
                                                 std::vector<std::string> rank_names,
                                                 const Options& options, const WaitPolicy& policy)
    : options_(options),
      memory_(std::move(region), rank, std::move(rank_names), options.segment_bytes,
              options.direct_bytes, policy),
      chooser_(options.stores) {}

void SharedMemoryCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  if (memory_.size() == 1) return;
  const std::size_t bytes = buffer.bytes();
  // Values that fit into a flag are written with plain stores, so there is nothing to choose.
  const Stores stores =
      bytes > Flag::kInlineBytes ? chooser_.choose(memory_, bytes) : Stores::kPlain;
  if (bytes <= options_.direct_bytes)
    direct_allreduce(memory_, buffer, op, stores, scratch_);
  else
    pipelined_allreduce(memory_, buffer, op, options_.segment_bytes, stores, chooser_);
}

void SharedMemoryCollectives::allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) {
  if (memory_.size() == 1 || buffer.own().bytes() <= options_.direct_bytes)
    allreduce(buffer.own(), op);
  else
    mapped_allreduce(memory_, buffer, op);
}

void SharedMemoryCollectives::broadcast(const ScatteredBuffer& buffer, int root) {
  if (memory_.size() > 1)
    pipelined_broadcast(memory_, buffer, root, chooser_.choose(memory_, buffer.bytes()));
}

// StoreChooser::choose() may probe, which is collective. All ranks pass the same number of bytes,
// so all of them probe in the same call.
void SharedMemoryCollectives::allgather(std::span<const std::byte> input,
                                        std::span<const std::size_t> bytes_of,
                                        std::span<std::byte> output) {
  pipelined_allgather(
      memory_, input, bytes_of, output,
      memory_.size() > 1 ? chooser_.choose(memory_, output.size()) : Stores::kPlain);
}

void SharedMemoryCollectives::reduce_scatter(const std::byte* input, DataType type,
                                             std::span<const std::size_t> count_of,
                                             std::byte* output, ReduceOp op) {
  const std::size_t count = std::accumulate(count_of.begin(), count_of.end(), std::size_t{0});
  pipelined_reduce_scatter(
      memory_, input, type, count_of, output, op,
      memory_.size() > 1 ? chooser_.choose(memory_, count * size_of(type)) : Stores::kPlain);
}

void SharedMemoryCollectives::alltoall(std::span<const std::byte> input,
                                       std::span<const std::size_t> bytes_to,
                                       std::span<std::byte> output,
                                       std::span<const std::size_t> bytes_from) {
  const AlltoallBlocks blocks(input, bytes_to, output, bytes_from);
  if (memory_.size() == 1) return blocks.copy_own(0);
  const AlltoallStreams streams = exchange_streams(memory_, blocks);
  pipelined_alltoall(memory_, blocks, streams, chooser_.choose(memory_, streams.longest));
}

// A rank returns from a direct exchange only after all ranks have posted the exchange, even if the
// buffer is empty.
void SharedMemoryCollectives::barrier() {
  direct_allreduce(memory_, ScatteredBuffer(DataType::kUInt8), ReduceOp::kSum, Stores::kPlain,
                   scratch_);
}

}  // namespace horo::collectives
