#include "collectives/ring/binomial_broadcast.h"

#include "collectives/ring/await.h"
#include "collectives/ring/tags.h"
#include "collectives/stretches.h"

namespace horo::collectives {

void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging) {
  const int size = peers.size();
  if (size == 1 || buffer.count() == 0) return;
  const int place = (peers.rank() - root + size) % size;  // the root has place 0
  const auto rank_at = [&](int p) { return (p + root) % size; };
  const Range all{0, buffer.count()};
  std::byte* data = contiguous_address(buffer, all);
  const bool is_staged = data == nullptr;
  if (is_staged) {
    if (staging.size() < buffer.bytes()) staging.resize(buffer.bytes());
    data = staging.data();
    if (place == 0) gather(buffer, all, data);
  }
  const std::span<std::byte> bytes(data, buffer.bytes());

  // The lowest set bit of a place is the distance to its parent; the root is below every power of
  // two.
  int distance = 1;
  while (distance < size && (place & distance) == 0) distance *= 2;
  if (place != 0) {
    const int parent = rank_at(place - distance);
    await(peers, peers.start_receive(parent, kBroadcastTag, bytes), "to send its broadcast",
          rank_names[static_cast<std::size_t>(parent)]);
  }
  struct Child {
    int rank;
    PointToPoint::Ticket ticket;
  };
  std::vector<Child> children;
  for (distance /= 2; distance > 0; distance /= 2)
    if (place + distance < size) {
      const int child = rank_at(place + distance);
      children.push_back({child, peers.start_send(child, kBroadcastTag, bytes)});
    }
  if (is_staged && place != 0) scatter(buffer, all, data);
  for (const Child& child : children)
    await(peers, child.ticket, "to receive a broadcast",
          rank_names[static_cast<std::size_t>(child.rank)]);
}

}  // namespace horo::collectives
