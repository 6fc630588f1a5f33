#include "examples/benchmarks/collective_kind.h"

namespace horo::bench {

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"allreduce", "reduce_scatter", "allgather",
                                         "broadcast", "alltoall",       "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_reducing(CollectiveKind kind) {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kReduceScatter;
}

double bus_factor(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::kAllreduce:
      return 2 * others;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllgather:
    case CollectiveKind::kAlltoall:
      return others;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBarrier:
      break;
  }
  return 1;
}

}  // namespace horo::bench
