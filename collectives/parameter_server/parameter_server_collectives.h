#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce by synchronous parameter servers. Each of ranks 0 ... servers-1 is a server and owns
/// one chunk of the buffer. A server receives the values of its chunk from all ranks, combines them
/// in rank order and sends the result back, in segments of at most `segment_bytes` (but at least
/// one element). A server receives the next segment while it combines the current one. (Source: Li
/// et al., "Scaling distributed machine learning with the parameter server", 2014. Here, every
/// allreduce waits for all ranks.)
///
/// Cost for N bytes, n ranks and s servers: a rank that is not a server sends and receives N bytes.
/// A server sends and receives (n-1)/s * N bytes as a server and (s-1)/s * N bytes as a client of
/// the other servers. The traffic of a server therefore grows with the number of ranks. In a ring,
/// a rank sends less than 2N bytes for any number of ranks.
///
/// `servers` is at least 1 and at most the number of ranks. `rank_names` has one name per rank of
/// `peers`, for error texts. The caller keeps `staging` between calls to avoid allocations.
void parameter_server_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                int servers, std::size_t segment_bytes,
                                const ScatteredBuffer& buffer, ReduceOp op,
                                std::vector<std::byte>& staging);

/// Collectives whose allreduce uses the first `servers` ranks as parameter servers (see
/// parameter_server_allreduce()). The other collectives are those of RingCollectives. The bits of
/// an allreduce depend neither on timing nor on the position of an element in the buffer. A wire
/// type has no effect.
class ParameterServerCollectives : public RingCollectives {
 public:
  /// See RingCollectives. `servers` must be above 0. If it exceeds the number of ranks, all ranks
  /// are servers.
  ParameterServerCollectives(PointToPoint& peers, std::size_t segment_bytes, std::size_t servers,
                             std::vector<std::string> rank_names = {});

  std::string_view name() const override { return "parameter_server"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;

 private:
  std::size_t servers_;
  std::vector<std::byte> server_staging_;
};

}  // namespace horo::collectives
