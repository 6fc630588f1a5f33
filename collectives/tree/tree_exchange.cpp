#include "collectives/tree/tree_exchange.h"

#include "collectives/ring/tags.h"

namespace horo::collectives {

PointToPoint::Ticket TreePeers::start_send(int peer, const std::byte* from, std::size_t bytes) {
  return bytes == 0 ? 0 : peers_.start_send(peer, kExchangeTag, {from, bytes});
}

PointToPoint::Ticket TreePeers::start_receive(int peer, std::byte* to, std::size_t bytes) {
  return bytes == 0 ? 0 : peers_.start_receive(peer, kExchangeTag, {to, bytes});
}

}  // namespace horo::collectives
