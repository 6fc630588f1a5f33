#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/coordinator/negotiation/request.h"
#include "horo/coordinator/negotiation/response_cache.h"

namespace horo::coordinator {

/// The merged submissions of the ranks of a subtree for one operation. Only `rows` and `absent`
/// grow with the number of ranks.
struct Contribution {
  /// If `cached` is not 0, all ranks of the subtree, except the absent ranks, submitted requests
  /// that are cached under this number. In that case, `agreed` is the cache entry of this rank, and
  /// `variants` and `rows` are empty.
  CacheId cached = 0;
  std::shared_ptr<const Agreed> agreed;

  /// One or two different requests in ascending order of rank. `rank` is the lowest rank that
  /// submitted `request`. merge() keeps the request of the lowest rank and the request of the
  /// lowest rank that disagrees with it. These two requests are enough to report a mismatch.
  struct Variant {
    int rank = 0;
    Request request;  ///< without splits
    friend bool operator==(const Variant&, const Variant&) = default;
  };
  std::vector<Variant> variants;
  /// For an allgather, the number of rows of each rank's input. For an alltoall, the splits of each
  /// rank. Sorted by rank.
  struct Rows {
    int rank = 0;
    std::vector<std::uint64_t> rows;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  std::vector<Rows> rows;
  /// Ranks that have joined and did not submit the operation, ascending.
  std::vector<int> absent;

  const Request& request() const { return agreed ? agreed->request : variants.front().request; }
  const std::string& name() const { return request().name; }
};

/// Returns the contribution of one rank.
Contribution contribution_of(int rank, const Request& request);
/// Returns the contribution of one rank whose request is cached.
Contribution contribution_of(CacheId id, std::shared_ptr<const Agreed> agreed);

/// Replaces the cache number, if there is one, by variants and rows. `ranks` must be the ranks of
/// the contribution, including absent ranks.
void spell_out(Contribution& contribution, std::span<const int> ranks);
/// Adds `other`, the contribution of other ranks to the same operation. `ranks` must be the ranks
/// of `into`, and `other_ranks` the ranks of `other`, both including absent ranks.
void merge(Contribution& into, std::span<const int> ranks, Contribution other,
           std::span<const int> other_ranks);

}  // namespace horo::coordinator
