#include "collectives/tree/halving_doubling_allreduce.h"

#include <array>

#include "collectives/tree/combination_tree.h"
#include "collectives/tree/tree_step.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kMostLevels = 31;  // ranks are counted in ints

// What a rank of the core keeps and gives away at each level.
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

  // received: count * width bytes and one element more for each level.
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
    step_.take_in(own_, received, true, count_, false);
  }
  void reduce_level(int level) {
    const auto i = static_cast<std::size_t>(level);
    const Range kept = halves_.kept[i];
    const Range given = halves_.given[i];
    const int peer = tree_.peer(level);
    const auto send = group_.start_send(peer, at(given), bytes_of(given));
    group_.await_receive(peer, partial_[i]);
    step_.take_in(at(kept), places_[i], tree_.is_lower(level), kept.count(), tree_.is_last(level));
    group_.await_send(peer, send);
    // What was given away comes back complete, from the same peer.
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
  std::byte* const memory = at_least(staging.bytes, copied + fold + halves);
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

}  // namespace horo::collectives
