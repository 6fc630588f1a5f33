#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/collectives.h"

namespace horo::collectives {

/// Memory of ordered_sum(), kept between calls. Messages that an error left on their way may still
/// arrive in it: it lives as long as what carries them.
struct OrderedSumStaging {
  std::vector<double> parts;
  std::vector<double> own;
};

/// Adds up the `values` of all ranks, in rank order for each of them, in place. Unlike
/// Collectives::allreduce() it gives the same bits with any Collectives and wherever a number lies
/// in `values`. Cost for N bytes of values: one allgather up to n * N = 32 KiB, else an alltoall
/// and an allgather, with 2(n-1)/n * N sent per rank.
void ordered_sum(Collectives& collectives, int rank, int size, std::span<double> values,
                 OrderedSumStaging& staging);

}  // namespace horo::collectives
