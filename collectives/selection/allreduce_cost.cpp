#include "collectives/selection/allreduce_cost.h"

#include "collectives/tree/combination_tree.h"

namespace horo::collectives {

double predicted_seconds(MessageAllreduce allreduce, std::size_t bytes, int ranks,
                         const LinkCost& link, double ring_wire) {
  const CombinationTree tree(0, ranks);
  const double n = ranks;
  const double p = tree.core();
  const double levels = tree.levels();
  const double send = static_cast<double>(bytes) * link.beta;
  const double combine = static_cast<double>(bytes) * link.gamma;
  const double fold = tree.core() == ranks ? 0 : 2 * (link.alpha + send) + combine;
  switch (allreduce) {
    case MessageAllreduce::kExchange:
      return (n - 1) * (link.alpha + send + combine);
    case MessageAllreduce::kDoubling:
      return levels * (link.alpha + send + combine) + fold;
    case MessageAllreduce::kHalving:
      return 2 * levels * link.alpha + (p - 1) / p * (2 * send + combine) + fold;
    case MessageAllreduce::kRing:
    case MessageAllreduce::kAuto:
      break;
  }
  return 2 * (n - 1) * (link.alpha + ring_wire * send / n);
}

MessageAllreduce fastest_tree(std::size_t bytes, int ranks, const LinkCost& link) {
  MessageAllreduce best = MessageAllreduce::kExchange;
  for (const auto candidate : {MessageAllreduce::kDoubling, MessageAllreduce::kHalving})
    if (predicted_seconds(candidate, bytes, ranks, link) <
        predicted_seconds(best, bytes, ranks, link))
      best = candidate;
  return best;
}

bool is_ring_faster(std::size_t bytes, int ranks, const LinkCost& link, double ring_wire) {
  return predicted_seconds(MessageAllreduce::kRing, bytes, ranks, link, ring_wire) <
         predicted_seconds(fastest_tree(bytes, ranks, link), bytes, ranks, link);
}

}  // namespace horo::collectives
