#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/coordinator/negotiation/request.h"
#include "horo/coordinator/negotiation/response_cache.h"

namespace horo::coordinator {

/// The merged submissions of the ranks of a subtree for one operation. Its size does not grow with
/// the number of ranks, except `rows`.
struct Contribution {
  /// If not 0, all ranks submitted the request that is cached under this number. Then `agreed`
  /// holds it, and `variants` and `rows` are empty.
  CacheId cached = 0;
  std::shared_ptr<const Agreed> agreed;

  /// At most two different requests, each with the lowest rank that submitted it, in ascending
  /// order of rank. Two are enough: whatever rank 0 submitted, the lowest rank that disagrees with
  /// it is among the variants of the subtrees.
  struct Variant {
    int rank = 0;
    Request request;  ///< without splits
    friend bool operator==(const Variant&, const Variant&) = default;
  };
  std::vector<Variant> variants;
  /// Allgather: the number of rows of each rank's input. Alltoall: the splits of each rank. Sorted
  /// by rank.
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

/// The contribution of one rank.
Contribution contribution_of(int rank, const Request& request);
/// The contribution of one rank whose request is cached.
Contribution contribution_of(CacheId id, std::shared_ptr<const Agreed> agreed);

/// Replaces a cache number by variants and rows. `ranks`: the ranks of the contribution.
void spell_out(Contribution& contribution, std::span<const int> ranks);
/// Adds `other`, the contribution of other ranks to the same operation. `ranks` and `other_ranks`:
/// the ranks of each, including absent ones.
void merge(Contribution& into, std::span<const int> ranks, Contribution other,
           std::span<const int> other_ranks);

}  // namespace horo::coordinator
