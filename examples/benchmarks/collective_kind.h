#pragma once

#include <cstdint>
#include <string_view>

namespace horo::bench {

enum class CollectiveKind : std::uint8_t {
  kAllreduce,
  kReduceScatter,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kBarrier,
};
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::kAllreduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllgather,
    CollectiveKind::kBroadcast, CollectiveKind::kAlltoall,      CollectiveKind::kBarrier};

/// "allreduce", "reduce_scatter", ...
std::string_view name_of(CollectiveKind kind);

bool is_reducing(CollectiveKind kind);

/// Bus bandwidth per algorithm bandwidth, as nccl-tests defines them (its PERFORMANCE.md).
/// Algorithm bandwidth is bytes per time, the bytes being those of the whole buffer: of the input
/// of allreduce, reduce_scatter, broadcast and (per rank) alltoall, of the output of allgather.
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace horo::bench
