#include "horo/coordinator/negotiation/contribution.h"

#include <algorithm>
#include <numeric>

namespace horo::coordinator {
namespace {

// Returns the contribution of `rank`, whose request is cached. agreed.request is the request of the
// rank that calls this function. The request of `rank` may differ from it only in its rows, which
// are in agreed.rows_of.
Contribution contribution_to(const Agreed& agreed, int rank) {
  Request request = agreed.request;
  if (!has_own_rows(request.kind)) return contribution_of(rank, request);
  const std::span<const std::uint64_t> rows = agreed.rows_from(rank);
  std::vector<std::size_t> dimensions = request.shape.dimensions();
  dimensions.front() = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  request.shape = Shape(std::move(dimensions));
  if (request.kind == Kind::kAlltoall) request.splits.assign(rows.begin(), rows.end());
  return contribution_of(rank, request);
}

// Sorts by rank, and keeps the first request and the first request that disagrees with it. The
// result does not depend on the order in which contributions are merged. Therefore an error always
// names the same pair of ranks.
void merge_variants(std::vector<Contribution::Variant>& into,
                    std::vector<Contribution::Variant> others) {
  for (Contribution::Variant& other : others) into.push_back(std::move(other));
  std::ranges::stable_sort(into, {}, &Contribution::Variant::rank);
  std::vector<Contribution::Variant> kept;
  for (Contribution::Variant& variant : into) {
    const bool is_known = std::ranges::any_of(
        kept, [&](const auto& other) { return requests_agree(other.request, variant.request); });
    if (!is_known && kept.size() < 2) kept.push_back(std::move(variant));
  }
  into = std::move(kept);
}

void merge_absent(std::vector<int>& into, const std::vector<int>& others) {
  if (others.empty()) return;
  into.insert(into.end(), others.begin(), others.end());
  std::ranges::sort(into);
}

}  // namespace

Contribution contribution_of(int rank, const Request& request) {
  Contribution contribution;
  contribution.variants.push_back({rank, request});
  contribution.variants.front().request.splits.clear();
  if (request.kind == Kind::kAllgather)
    contribution.rows.push_back({rank, {request.shape[0]}});
  else if (request.kind == Kind::kAlltoall)
    contribution.rows.push_back({rank, {request.splits.begin(), request.splits.end()}});
  return contribution;
}

Contribution contribution_of(CacheId id, std::shared_ptr<const Agreed> agreed) {
  Contribution contribution;
  contribution.cached = id;
  contribution.agreed = std::move(agreed);
  return contribution;
}

// One variant is enough, because requests that are cached under one number agree. If the kind has
// no rows, the loop ends after the first rank that is not absent.
void spell_out(Contribution& contribution, std::span<const int> ranks) {
  if (contribution.cached == 0) return;
  const std::shared_ptr<const Agreed> agreed = std::move(contribution.agreed);
  contribution.cached = 0;
  contribution.agreed = nullptr;
  for (const int rank : ranks) {
    if (std::ranges::binary_search(contribution.absent, rank)) continue;
    Contribution own = contribution_to(*agreed, rank);
    if (contribution.variants.empty()) contribution.variants = std::move(own.variants);
    if (own.rows.empty()) break;
    contribution.rows.push_back(std::move(own.rows.front()));
  }
}

// If both contributions have the same cache number, the result keeps this number. This is the
// common case in a training loop, and makes the message to the parent short.
void merge(Contribution& into, std::span<const int> ranks, Contribution other,
           std::span<const int> other_ranks) {
  if (into.cached != other.cached) {
    spell_out(into, ranks);
    spell_out(other, other_ranks);
  }
  merge_absent(into.absent, other.absent);
  if (into.cached != 0) return;
  merge_variants(into.variants, std::move(other.variants));
  if (other.rows.empty()) return;
  for (Contribution::Rows& rows : other.rows) into.rows.push_back(std::move(rows));
  std::ranges::sort(into.rows, {}, &Contribution::Rows::rank);
}

}  // namespace horo::coordinator
