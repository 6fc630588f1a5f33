#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/ring/ring_collectives.h"

namespace horo::collectives {

/// Collectives whose allreduce goes through parameter servers, the first `servers` ranks (see
/// parameter_server_allreduce()); the others are those of the ring. The bits of an allreduce depend
/// neither on timing nor on packing.
class ParameterServerCollectives : public RingCollectives {
 public:
  /// See RingCollectives. More servers than ranks are as many as ranks.
  ParameterServerCollectives(PointToPoint& peers, std::size_t segment_bytes, std::size_t servers,
                             std::vector<std::string> rank_names = {});

  std::string_view name() const override { return "parameter_server"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;

 private:
  std::size_t servers_;
  std::vector<std::byte> server_staging_;
};

}  // namespace horo::collectives
