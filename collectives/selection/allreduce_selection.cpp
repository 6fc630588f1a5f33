#include "collectives/selection/allreduce_selection.h"

#include "collectives/tree/tree_exchange.h"

namespace horo::collectives {

double predicted_seconds(MessageAllreduce allreduce, std::size_t bytes, int ranks,
                         const LinkCost& link, double ring_wire) {
  const CombinationTree tree(0, ranks);
  const double n = ranks;
  const double p = tree.core();
  const double levels = tree.levels();
  const double send = static_cast<double>(bytes) * link.beta;
  const double combine = static_cast<double>(bytes) * link.gamma;
  // A rank outside the core (see CombinationTree) sends its values to a core rank first and
  // receives the result at the end.
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

// The candidates are in ascending order of their numbers of steps. If predictions are equal, the
// one with the fewest steps is returned.
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

MessageAllreduce choose_allreduce(const AllreduceSelection& selection, std::size_t bytes, int ranks,
                                  double ring_wire) {
  if (selection.setting != MessageAllreduce::kAuto) return selection.setting;
  if (bytes > kLargestTreeBytes || is_ring_faster(bytes, ranks, selection.ring_boundary, ring_wire))
    return MessageAllreduce::kRing;
  return fastest_tree(bytes, ranks, selection.link);
}

bool should_use_leaders(const AllreduceSelection& selection, std::size_t bytes, int nodes,
                        int columns, double ring_wire) {
  if (columns < 2) return false;
  const MessageAllreduce whole = choose_allreduce(selection, bytes, nodes, ring_wire);
  if (whole == MessageAllreduce::kRing) return false;
  const std::size_t shard = bytes / static_cast<std::size_t>(columns);
  // All columns of a node share the link of the node, so a message of a column costs `columns`
  // times as much.
  const LinkCost shared{columns * selection.link.alpha, columns * selection.link.beta,
                        selection.link.gamma};
  return predicted_seconds(whole, bytes, nodes, selection.link) <
         predicted_seconds(choose_allreduce(selection, shard, nodes, ring_wire), shard, nodes,
                           shared, ring_wire);
}

}  // namespace horo::collectives
