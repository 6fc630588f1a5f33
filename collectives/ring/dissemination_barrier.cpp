#include "collectives/ring/dissemination_barrier.h"

#include <cstddef>

#include "collectives/ring/await.h"
#include "collectives/ring/tags.h"

namespace horo::collectives {

void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names) {
  const int size = peers.size();
  const int rank = peers.rank();
  const std::byte token{1};
  for (int distance = 1; distance < size; distance *= 2) {
    const int ahead = (rank + distance) % size;
    const int behind = (rank - distance % size + size) % size;
    std::byte arrived{};
    const auto receive = peers.start_receive(behind, kBarrierTag, {&arrived, 1});
    const auto send = peers.start_send(ahead, kBarrierTag, {&token, 1});
    await(peers, receive, "to reach a barrier", rank_names[static_cast<std::size_t>(behind)]);
    await(peers, send, "to reach a barrier", rank_names[static_cast<std::size_t>(ahead)]);
  }
}

}  // namespace horo::collectives
