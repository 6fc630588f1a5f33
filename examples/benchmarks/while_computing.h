#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "examples/benchmarks/bench_timing.h"
#include "horo/horo.h"

namespace horo::bench {

/// What a rank's computation and its exchange of gradients cost each other.
struct OverlapResult {
  Stats alone_us;      ///< the exchange, from the first ready() on, while the caller waits for it
  Stats computing_us;  ///< the same in the background, while the caller computes
  double loss = 0;     ///< by how much of alone_us computing_us is longer (medians)
  /// The part of its speed that the computation lost meanwhile, on the rank that lost most.
  double computation_lost = 0;
  /// How much of a core horo's threads took meanwhile, on the rank where it was most. Other
  /// programs on the machine do not change it much.
  double core_share = 0;
};

/// Exchanges `bytes` of float32 gradients, in tensors of at most 4 MiB, in turn with and without a
/// computation on the caller's thread, which calls neither horo nor MPI but to see whether the
/// exchange is done. Checks the averages. Collective over all ranks of `ctx`.
OverlapResult measure_while_computing(Context& ctx, std::size_t bytes, int rounds);

nlohmann::json to_json(const OverlapResult& result);

}  // namespace horo::bench
