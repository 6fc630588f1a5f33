#pragma once

#include "collectives/ring/allreduce_ends.h"

namespace horo::collectives {

/// Segments travel in the buffer's type, from and to their place where that is in one piece.
class PlainAllreduceEnds : public AllreduceEnds {
 public:
  using AllreduceEnds::AllreduceEnds;

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override;
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override;
  void arrived(std::size_t receive, std::span<const std::byte> bytes) override;
  bool may_receive(std::size_t receive, std::size_t sends_done) const override;
};

}  // namespace horo::collectives
