#include "collectives/tree/tree_allreduce.h"

#include <array>

#include "collectives/tree/tree_exchange.h"

namespace horo::collectives {

namespace {

constexpr std::size_t kMostLevels = 31;  // the number of ranks is an int

// The ranges that a core rank keeps and sends at each level.
struct Halves {
  std::array<Range, kMostLevels> kept;
  std::array<Range, kMostLevels> given;

  Halves(const CombinationTree& tree, std::size_t count) {
    Range all{0, count};
    for (int level = 0; level < tree.levels(); ++level) {
      const std::size_t middle = all.begin + all.count() / 2;
      const Range low{all.begin, middle};
      const Range high{middle, all.end};
      const auto i = static_cast<std::size_t>(level);
      kept[i] = tree.is_lower(level) ? low : high;
      given[i] = tree.is_lower(level) ? high : low;
      all = kept[i];
    }
  }
};

class HalvingDoubling {
 public:
  HalvingDoubling(TreePeers& group, const CombinationTree& tree, const TreeStep& step,
                  std::byte* own, std::size_t count, std::size_t width)
      : group_(group),
        tree_(tree),
        step_(step),
        own_(own),
        count_(count),
        width_(width),
        halves_(tree, count) {}

  // `received` must have room for the kept ranges of all levels. Together, these have at most
  // `count` elements plus one element for each level. If this rank has an extra rank, `received`
  // begins with room for the `count` values of the extra rank. All messages can have one tag,
  // because each level has a different peer, and a rank sends its partial values to a peer before
  // its complete values.
  void run(std::byte* received) {
    post_receives(received);
    if (tree_.has_fold()) take_in_fold(received);
    for (int level = 0; level < tree_.levels(); ++level) reduce_level(level);
    for (int level = tree_.levels() - 1; level >= 0; --level) return_level(level);
    if (tree_.has_fold()) group_.send(tree_.fold_peer(), own_, count_ * width_);
  }

 private:
  std::byte* at(Range range) const { return own_ + range.begin * width_; }
  std::size_t bytes_of(Range range) const { return range.count() * width_; }

  void post_receives(std::byte* received) {
    received += tree_.has_fold() ? count_ * width_ : 0;
    for (int level = 0; level < tree_.levels(); ++level) {
      const auto i = static_cast<std::size_t>(level);
      places_[i] = received;
      received += bytes_of(halves_.kept[i]);
      partial_[i] = group_.start_receive(tree_.peer(level), places_[i], bytes_of(halves_.kept[i]));
    }
  }
  void take_in_fold(std::byte* received) {
    const int extra = tree_.fold_peer();
    group_.await_receive(extra, group_.start_receive(extra, received, count_ * width_));
    step_.accumulate(own_, received, true, count_, false);
  }
  void reduce_level(int level) {
    const auto i = static_cast<std::size_t>(level);
    const Range kept = halves_.kept[i];
    const Range given = halves_.given[i];
    const int peer = tree_.peer(level);
    const auto send = group_.start_send(peer, at(given), bytes_of(given));
    group_.await_receive(peer, partial_[i]);
    step_.accumulate(at(kept), places_[i], tree_.is_lower(level), kept.count(),
                     tree_.is_last(level));
    group_.await_send(peer, send);
    // The peer returns the complete values of the range `given`. These overwrite the values that
    // the send reads, so the receive is posted only after the send is done.
    complete_[i] = group_.start_receive(peer, at(given), bytes_of(given));
  }
  void return_level(int level) {
    const auto i = static_cast<std::size_t>(level);
    const int peer = tree_.peer(level);
    const auto send = group_.start_send(peer, at(halves_.kept[i]), bytes_of(halves_.kept[i]));
    group_.await_receive(peer, complete_[i]);
    group_.await_send(peer, send);
  }

  TreePeers& group_;
  const CombinationTree& tree_;
  const TreeStep& step_;
  std::byte* own_;
  std::size_t count_;
  std::size_t width_;
  Halves halves_;
  std::array<std::byte*, kMostLevels> places_{};
  std::array<PointToPoint::Ticket, kMostLevels> partial_{};
  std::array<PointToPoint::Ticket, kMostLevels> complete_{};
};

}  // namespace

void halving_doubling_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging) {
  const std::size_t bytes = buffer.bytes();
  if (peers.size() == 1 || bytes == 0) return;
  TreePeers group(peers, rank_names);
  const CombinationTree tree(group.rank(), group.size());
  const std::size_t width = buffer.element_bytes();
  const std::size_t copied = WholeBuffer::staging_bytes(buffer);
  const std::size_t fold = tree.has_fold() ? bytes : 0;
  const std::size_t halves = bytes + static_cast<std::size_t>(tree.levels()) * width;
  std::byte* const memory = ensure_size(staging.bytes, copied + fold + halves);
  const WholeBuffer whole(buffer, memory);
  if (tree.is_extra()) {
    group.send_and_receive(tree.fold_peer(), whole.data(), bytes);
  } else {
    HalvingDoubling(group, tree, TreeStep(buffer.type(), op, group.size()), whole.data(),
                    buffer.count(), width)
        .run(memory + copied);
  }
  whole.write_back();
}

namespace {

// Combines the values of all ranks in the order of CombinationTree. The values of rank r are at
// values + r * bytes. The result replaces the values of rank 0. The values of some other ranks are
// overwritten too.
void combine_all(const TreeStep& step, int size, std::byte* values, std::size_t count,
                 std::size_t bytes) {
  const CombinationTree tree(0, size);
  const auto of = [&](int rank) { return values + static_cast<std::size_t>(rank) * bytes; };
  for (int extra = tree.core(); extra < size; ++extra)
    step.accumulate(of(extra - tree.core()), of(extra), true, count, false);
  for (int level = 0; level < tree.levels(); ++level) {
    const int distance = 1 << level;
    for (int rank = 0; rank < tree.core(); rank += 2 * distance)
      step.accumulate(of(rank), of(rank + distance), true, count, tree.is_last(level));
  }
}

}  // namespace

// Posts all receives before the first send, because a message that arrives before its receive is
// posted costs one more copy. Rank r sends to r + 1 first and waits for r - 1 first, so that not
// all ranks send to the same rank at once.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op, TreeStaging& staging) {
  const std::size_t bytes = buffer.bytes();
  if (peers.size() == 1 || bytes == 0) return;
  TreePeers group(peers, rank_names);
  const int size = group.size();
  const int rank = group.rank();
  std::byte* const values = ensure_size(staging.bytes, static_cast<std::size_t>(size) * bytes);
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

namespace {

void exchange_levels(TreePeers& group, const CombinationTree& tree, const TreeStep& step,
                     std::byte* own, std::size_t count, std::size_t bytes, TreeStaging& staging,
                     std::byte* received) {
  // `received` has one place of `bytes` for each level, and then one place for the extra rank. All
  // receives for the levels are posted before any send, because a message that arrives before its
  // receive is posted costs one more copy.
  const auto place = [&](int level) { return received + static_cast<std::size_t>(level) * bytes; };
  for (int level = 0; level < tree.levels(); ++level)
    staging.tickets[static_cast<std::size_t>(level)] =
        group.start_receive(tree.peer(level), place(level), bytes);
  if (tree.has_fold()) {
    group.await_receive(tree.fold_peer(),
                        group.start_receive(tree.fold_peer(), place(tree.levels()), bytes));
    step.accumulate(own, place(tree.levels()), true, count, false);
  }
  for (int level = 0; level < tree.levels(); ++level) {
    const auto send = group.start_send(tree.peer(level), own, bytes);
    group.await_receive(tree.peer(level), staging.tickets[static_cast<std::size_t>(level)]);
    // The send reads `own`, so it must be done before the combination changes `own`.
    group.await_send(tree.peer(level), send);
    step.accumulate(own, place(level), tree.is_lower(level), count, tree.is_last(level));
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
  std::byte* const memory = ensure_size(staging.bytes, copied + places * bytes);
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
