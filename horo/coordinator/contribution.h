#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/coordinator/request.h"
#include "horo/coordinator/response_cache.h"

namespace horo::coordinator {

/// What the ranks of a subtree have submitted for one operation, taken together: its size does not
/// grow with the number of ranks, but for rows.
struct Contribution {
  /// Not 0: all of them submitted what is cached under this number, which `agreed` holds. Then
  /// `variants` and `rows` are empty.
  CacheId cached = 0;
  std::shared_ptr<const Agreed> agreed;

  /// Different descriptions, at most two, each with the lowest rank that gave it, the lower rank
  /// first. That is enough: whatever rank 0 submitted, the lowest rank that disagrees with it is
  /// among those of the subtrees.
  struct Variant {
    int rank = 0;
    Request request;  ///< without splits
    friend bool operator==(const Variant&, const Variant&) = default;
  };
  std::vector<Variant> variants;
  /// Allgather and alltoall: the rows of each rank's input, or its splits. Ascending ranks.
  struct Rows {
    int rank = 0;
    std::vector<std::uint64_t> rows;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  std::vector<Rows> rows;
  /// Ranks that have joined and submitted nothing. Ascending.
  std::vector<int> absent;

  const Request& request() const { return agreed ? agreed->request : variants.front().request; }
  const std::string& name() const { return request().name; }
};

/// One rank's own.
Contribution contribution_of(int rank, const Request& request);
/// The same for a request that is cached.
Contribution contribution_of(CacheId id, std::shared_ptr<const Agreed> agreed);

/// Spells out what is only a number, for the ranks it stands for.
void spell_out(Contribution& contribution, std::span<const int> ranks);
/// Adds `other`, of other ranks of the same operation. `ranks` and `other_ranks`: whom each stands
/// for, absent ones included.
void merge(Contribution& into, std::span<const int> ranks, Contribution other,
           std::span<const int> other_ranks);

}  // namespace horo::coordinator
