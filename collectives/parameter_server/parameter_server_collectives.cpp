#include "collectives/parameter_server/parameter_server_collectives.h"

#include <algorithm>
#include <utility>

#include "collectives/parameter_server/parameter_server_allreduce.h"
#include "horo/base/error.h"

namespace horo::collectives {

ParameterServerCollectives::ParameterServerCollectives(PointToPoint& peers,
                                                       std::size_t segment_bytes,
                                                       std::size_t servers,
                                                       std::vector<std::string> rank_names)
    : RingCollectives(peers, segment_bytes, std::move(rank_names)),
      servers_(std::min(servers, static_cast<std::size_t>(peers.size()))) {
  HORO_CHECK(servers > 0, "");
}

void ParameterServerCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  parameter_server_allreduce(peers(), rank_names(), static_cast<int>(servers_), segment_bytes(),
                             buffer, op, server_staging_);
}

}  // namespace horo::collectives
