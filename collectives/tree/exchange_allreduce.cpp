#include "collectives/tree/exchange_allreduce.h"

#include "collectives/tree/combination_tree.h"
#include "collectives/tree/tree_step.h"

namespace horo::collectives {
namespace {

// values + r * bytes: the values of rank r; the result replaces those of rank 0.
void combine_all(const TreeStep& step, int size, std::byte* values, std::size_t count,
                 std::size_t bytes) {
  const CombinationTree tree(0, size);
  const auto of = [&](int rank) { return values + static_cast<std::size_t>(rank) * bytes; };
  for (int extra = tree.core(); extra < size; ++extra)
    step.take_in(of(extra - tree.core()), of(extra), true, count, false);
  for (int level = 0; level < tree.levels(); ++level) {
    const int distance = 1 << level;
    for (int rank = 0; rank < tree.core(); rank += 2 * distance)
      step.take_in(of(rank), of(rank + distance), true, count, tree.is_last(level));
  }
}

}  // namespace

void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging) {
  const std::size_t bytes = buffer.bytes();
  if (peers.size() == 1 || bytes == 0) return;
  TreePeers group(peers, rank_names);
  const int size = group.size();
  const int rank = group.rank();
  std::byte* const values = at_least(staging.bytes, static_cast<std::size_t>(size) * bytes);
  const auto of = [&](int r) { return values + static_cast<std::size_t>(r) * bytes; };
  gather(buffer, {0, buffer.count()}, of(rank));

  const int others = size - 1;
  staging.tickets.resize(2 * static_cast<std::size_t>(others));
  const auto receives = staging.tickets.begin();
  const auto sends = receives + others;
  const auto from = [&](int i) { return (rank + size - 1 - i) % size; };
  const auto to = [&](int i) { return (rank + 1 + i) % size; };
  for (int i = 0; i < others; ++i) receives[i] = group.start_receive(from(i), of(from(i)), bytes);
  for (int i = 0; i < others; ++i) sends[i] = group.start_send(to(i), of(rank), bytes);
  for (int i = 0; i < others; ++i) {
    group.await_receive(from(i), receives[i]);
    group.await_send(to(i), sends[i]);
  }
  combine_all(TreeStep(buffer.type(), op, size), size, values, buffer.count(), bytes);
  scatter(buffer, {0, buffer.count()}, values);
}

}  // namespace horo::collectives
