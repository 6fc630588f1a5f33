#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/coordinator/negotiation/request.h"
#include "horo/coordinator/negotiation/response_cache.h"

namespace horo::coordinator {

/// The merged submissions of one or more ranks for one operation. Only `rows` and `absent` grow
/// with the number of ranks.
struct Contribution {
  /// If `cached` is not 0, all ranks of the contribution, except the absent ranks, submitted
  /// requests that are cached under this number. In that case, `agreed` is the entry of the local
  /// cache, and `variants` and `rows` are empty.
  CacheId cached = 0;
  std::shared_ptr<const Agreed> agreed;

  /// A request and the rank that submitted it.
  struct Variant {
    int rank = 0;
    Request request;  ///< without splits
    friend bool operator==(const Variant&, const Variant&) = default;
  };
  /// The request of the lowest rank and, if requests disagree, the request of the lowest rank that
  /// disagrees with the first one. These two requests are enough to report a mismatch.
  std::vector<Variant> variants;
  /// For an allgather, the number of rows of a rank's input. For an alltoall, the splits of a rank.
  struct Rows {
    int rank = 0;
    std::vector<std::uint64_t> rows;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  /// Ascending by rank. Empty unless the operation is an allgather or alltoall.
  std::vector<Rows> rows;
  /// Ranks that have joined and did not submit the operation, ascending.
  std::vector<int> absent;

  const Request& request() const { return agreed ? agreed->request : variants.front().request; }
  const std::string& name() const { return request().name; }
};

/// Returns the contribution of one rank.
Contribution contribution_of(int rank, const Request& request);
/// Returns the contribution of one or more ranks whose requests are cached under the number `id`.
Contribution contribution_of(CacheId id, std::shared_ptr<const Agreed> agreed);

/// Replaces the cache number, if there is one, by variants and rows. `ranks` must be the ranks of
/// the contribution in ascending order, including absent ranks.
void spell_out(Contribution& contribution, std::span<const int> ranks);
/// Merges `other`, the contribution of other ranks to the same operation, into `into`. `ranks` must
/// be the ranks of `into`, and `other_ranks` the ranks of `other`. Both lists must be ascending and
/// include absent ranks.
void merge(Contribution& into, std::span<const int> ranks, Contribution other,
           std::span<const int> other_ranks);

}  // namespace horo::coordinator
