#include "collectives/adasum/ordered_sum.h"

#include <algorithm>
#include <vector>

#include "collectives/chunks.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kGatheredBytes = 32 * 1024;

std::vector<std::size_t> bytes_of(std::vector<std::size_t> counts) {
  for (std::size_t& count : counts) count *= sizeof(double);
  return counts;
}

std::span<double> at_least(std::vector<double>& memory, std::size_t count) {
  if (memory.size() < count) memory.resize(count);
  return std::span(memory).first(count);
}

// `parts`: sum.size() values of each rank, one rank's after the other.
void add_up(std::span<const double> parts, std::span<double> sum) {
  std::ranges::copy(parts.first(sum.size()), sum.begin());
  for (std::size_t at = sum.size(); at < parts.size(); at += sum.size())
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += parts[at + i];
}

}  // namespace

void ordered_sum(Collectives& collectives, int rank, int size, std::span<double> values,
                 OrderedSumStaging& staging) {
  const auto ranks = static_cast<std::size_t>(size);
  if (values.size_bytes() * ranks <= kGatheredBytes) {
    const std::span<double> all = at_least(staging.parts, values.size() * ranks);
    collectives.allgather(std::as_bytes(values), std::vector(ranks, values.size_bytes()),
                          std::as_writable_bytes(all));
    return add_up(all, values);
  }
  const std::vector<std::size_t> counts = chunk_sizes(values.size(), ranks);
  const std::span<double> own = at_least(staging.own, counts[static_cast<std::size_t>(rank)]);
  const std::span<double> parts = at_least(staging.parts, own.size() * ranks);
  collectives.alltoall(std::as_bytes(values), bytes_of(counts), std::as_writable_bytes(parts),
                       std::vector(ranks, own.size() * sizeof(double)));
  add_up(parts, own);
  collectives.allgather(std::as_bytes(own), bytes_of(counts), std::as_writable_bytes(values));
}

}  // namespace horo::collectives
