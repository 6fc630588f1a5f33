#include "collectives/selection/allreduce_selection.h"

#include "collectives/selection/allreduce_cost.h"

namespace horo::collectives {

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
  const LinkCost shared{columns * selection.link.alpha, columns * selection.link.beta,
                        selection.link.gamma};
  return predicted_seconds(whole, bytes, nodes, selection.link) <
         predicted_seconds(choose_allreduce(selection, shard, nodes, ring_wire), shard, nodes,
                           shared, ring_wire);
}

}  // namespace horo::collectives
