#include "collectives/ring/plain_allreduce_ends.h"

#include "collectives/stretches.h"

namespace horo::collectives {

std::span<const std::byte> PlainAllreduceEnds::outgoing(std::size_t send,
                                                        std::span<std::byte> slot) {
  const Range range = segments().sent(send);
  const ScatteredBuffer& own = buffer().own();
  const std::size_t bytes = range.count() * own.element_bytes();
  if (segments().is_first_hop(send) && buffer().ranks() > 1) {
    combine_own(range, without_division(op()), slot.data());
    return slot.first(bytes);
  }
  if (const std::byte* address = contiguous_address(own, range)) return {address, bytes};
  gather(own, range, slot.data());
  return slot.first(bytes);
}

std::span<std::byte> PlainAllreduceEnds::incoming(std::size_t receive, std::span<std::byte> slot) {
  const Range range = segments().received(receive);
  const std::size_t bytes = range.count() * buffer().own().element_bytes();
  std::byte* address = is_reducing(receive) ? nullptr : contiguous_address(buffer().own(), range);
  return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
}

void PlainAllreduceEnds::arrived(std::size_t receive, std::span<const std::byte> bytes) {
  const Range range = segments().received(receive);
  if (is_reducing(receive))
    add(range, bytes.data(), segments().is_last_hop(receive));
  else
    spread(range, bytes.data());
}

bool PlainAllreduceEnds::may_receive(std::size_t receive, std::size_t sends_done) const {
  return is_reducing(receive) || replaced_send(receive) < sends_done;
}

}  // namespace horo::collectives
