#include "collectives/ring/exchange_allreduce.h"

#include "collectives/reduce/kernels.h"
#include "collectives/ring/await.h"
#include "collectives/ring/tags.h"
#include "collectives/stretches.h"

namespace horo::collectives {

void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op,
                        std::vector<std::byte>& staging) {
  const auto size = static_cast<std::size_t>(peers.size());
  const auto rank = static_cast<std::size_t>(peers.rank());
  const std::size_t bytes = buffer.bytes();
  if (size == 1 || bytes == 0) return;
  if (staging.size() < size * bytes)
    staging.resize(size * bytes);  // staging[r]: the values of rank r
  const auto values_of = [&](std::size_t r) {
    return std::span(staging.data() + r * bytes, bytes);
  };
  gather(buffer, {0, buffer.count()}, values_of(rank).data());

  struct Pair {
    std::size_t from, to;
    PointToPoint::Ticket receive, send;
  };
  std::vector<Pair> pairs;
  for (std::size_t distance = 1; distance < size; ++distance) {
    const std::size_t from = (rank + size - distance) % size;
    const std::size_t to = (rank + distance) % size;
    const auto receive = peers.start_receive(static_cast<int>(from), kExchangeTag, values_of(from));
    pairs.push_back(
        {from, to, receive, peers.start_send(static_cast<int>(to), kExchangeTag, values_of(rank))});
  }
  for (const Pair& pair : pairs) {
    await(peers, pair.receive, "to send its part of an allreduce", rank_names[pair.from]);
    await(peers, pair.send, "to receive a part of an allreduce", rank_names[pair.to]);
  }
  const std::size_t width = buffer.element_bytes();
  std::vector<const std::byte*> sources(size);
  buffer.for_each_stretch(0, buffer.count(),
                          [&](std::byte* out, std::size_t first, std::size_t count) {
                            for (std::size_t r = 0; r < size; ++r)
                              sources[r] = values_of(r).data() + first * width;
                            reduce(buffer.type(), op, sources, count, size, out, Stores::kPlain);
                          });
}

}  // namespace horo::collectives
