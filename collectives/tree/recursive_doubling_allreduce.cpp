#include "collectives/tree/recursive_doubling_allreduce.h"

#include "collectives/tree/combination_tree.h"
#include "collectives/tree/tree_step.h"

namespace horo::collectives {
namespace {

void exchange_levels(TreePeers& group, const CombinationTree& tree, const TreeStep& step,
                     std::byte* own, std::size_t count, std::size_t bytes, TreeStaging& staging,
                     std::byte* received) {
  // received: one place of `bytes` for each level, then one for the fold. All receives are posted
  // before anything is sent: a message that nobody expects is copied once more.
  const auto place = [&](int level) { return received + static_cast<std::size_t>(level) * bytes; };
  for (int level = 0; level < tree.levels(); ++level)
    staging.tickets[static_cast<std::size_t>(level)] =
        group.start_receive(tree.peer(level), place(level), bytes);
  if (tree.has_fold()) {
    group.await_receive(tree.fold_peer(),
                        group.start_receive(tree.fold_peer(), place(tree.levels()), bytes));
    step.take_in(own, place(tree.levels()), true, count, false);
  }
  for (int level = 0; level < tree.levels(); ++level) {
    const auto send = group.start_send(tree.peer(level), own, bytes);
    group.await_receive(tree.peer(level), staging.tickets[static_cast<std::size_t>(level)]);
    group.await_send(tree.peer(level), send);
    step.take_in(own, place(level), tree.is_lower(level), count, tree.is_last(level));
  }
  if (tree.has_fold()) group.send(tree.fold_peer(), own, bytes);
}

}  // namespace

void recursive_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                  const ScatteredBuffer& buffer, ReduceOp op,
                                  TreeStaging& staging) {
  const std::size_t bytes = buffer.bytes();
  if (peers.size() == 1 || bytes == 0) return;
  TreePeers group(peers, rank_names);
  const CombinationTree tree(group.rank(), group.size());
  const std::size_t copied = WholeBuffer::staging_bytes(buffer);
  const auto places = static_cast<std::size_t>(tree.levels() + 1);
  std::byte* const memory = at_least(staging.bytes, copied + places * bytes);
  staging.tickets.resize(places);
  const WholeBuffer whole(buffer, memory);
  if (tree.is_extra()) {
    group.send_and_receive(tree.fold_peer(), whole.data(), bytes);
  } else {
    exchange_levels(group, tree, TreeStep(buffer.type(), op, group.size()), whole.data(),
                    buffer.count(), bytes, staging, memory + copied);
  }
  whole.write_back();
}

}  // namespace horo::collectives
