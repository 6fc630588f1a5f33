#include "collectives/shared_memory/mapped_allreduce.h"

#include <vector>

#include "collectives/line_chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {

void mapped_allreduce(NodeMemory& memory, const MappedBuffer& buffer, ReduceOp op) {
  const DataType type = buffer.own().type();
  const std::uint32_t step = memory.begin_steps(1, 0);
  memory.post(step);
  for (int peer = 0; peer < memory.size(); ++peer)
    if (peer != memory.rank()) memory.wait_posted(peer, step);

  const Range chunk =
      chunk_of_lines(buffer.own().count(), size_of(type), memory.size(), memory.rank());
  std::vector<const std::byte*> sources;
  buffer.for_each_stretch(chunk.begin, chunk.end,
                          [&](std::span<std::byte* const> addresses, std::size_t, std::size_t n) {
                            sources.assign(addresses.begin(), addresses.end());
                            // Every line written has just been read: plain stores find it in the
                            // cache.
                            reduce(type, op, sources, n, static_cast<std::size_t>(memory.size()),
                                   addresses, Stores::kPlain);
                          });
  memory.publish_reduced(step);
  for (int peer = 0; peer < memory.size(); ++peer)
    if (peer != memory.rank()) memory.wait_reduced(peer, step);
  memory.consume(step);
}

}  // namespace horo::collectives
