#include "collectives/shared_memory/direct_allreduce.h"

#include "collectives/reduce/kernels.h"

namespace horo::collectives {

void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch) {
  const std::uint32_t exchange = memory.begin_direct();
  const std::size_t bytes = buffer.bytes();
  const auto size = static_cast<std::size_t>(memory.size());
  // A buffer is free again after one other exchange: whoever has posted that one has finished this
  // one.
  std::byte* own = memory.direct_buffer(memory.rank(), exchange, bytes);
  const Stores own_stores = bytes <= Flag::kInlineBytes ? Stores::kPlain : stores;
  buffer.for_each_stretch(
      0, buffer.count(), [&](const std::byte* from, std::size_t first, std::size_t n) {
        copy(own + first * buffer.element_bytes(), from, n * buffer.element_bytes(), own_stores);
      });
  fence(own_stores);
  memory.post_direct(exchange);

  const std::byte* few_sources[16];
  std::vector<const std::byte*> many_sources(size > 16 ? size : 0);
  const std::span<const std::byte*> sources(size > 16 ? many_sources.data() : few_sources, size);
  for (std::size_t peer = 0; peer < size; ++peer) {
    memory.wait_direct(static_cast<int>(peer), exchange);
    sources[peer] = memory.direct_buffer(static_cast<int>(peer), exchange, bytes);
  }
  if (buffer.pieces().size() == 1) {
    reduce(buffer.type(), op, sources, buffer.count(), size, buffer.pieces()[0].data,
           Stores::kPlain);
    return;
  }
  if (scratch.size() < bytes) scratch.resize(bytes);
  reduce(buffer.type(), op, sources, buffer.count(), size, scratch.data(), Stores::kPlain);
  buffer.for_each_stretch(0, buffer.count(), [&](std::byte* to, std::size_t first, std::size_t n) {
    copy(to, scratch.data() + first * buffer.element_bytes(), n * buffer.element_bytes(),
         Stores::kPlain);
  });
}

}  // namespace horo::collectives
