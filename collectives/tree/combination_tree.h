#pragma once

namespace horo::collectives {

/// Which ranks combine what in a tree allreduce: pure arithmetic. The largest power of two of the
/// ranks are the core; rank core + i is an extra one, whose values rank i of the core takes in
/// first. Then, level by level, core ranks at distance 1, 2, 4, ... combine what they have. The
/// operand that holds the lower ranks always comes first.
///
/// Every form of tree allreduce (exchange, recursive doubling, halving and doubling) combines each
/// element in this order, so all of them give the same bits.
///
/// Example, 6 ranks: core 4; ((0+4)+(1+5)) + (2+3).
class CombinationTree {
 public:
  CombinationTree(int rank, int size) : rank_(rank), size_(size) {
    while (2 * core_ <= size) {
      core_ *= 2;
      ++levels_;
    }
  }

  int core() const { return core_; }
  int levels() const { return levels_; }  ///< log2 of core(): 0 for one rank
  bool is_extra() const { return rank_ >= core_; }
  /// Whether an extra rank folds into this one, or this one is extra itself.
  bool has_fold() const { return is_extra() || rank_ + core_ < size_; }
  /// The rank at the other end of the fold. Requires has_fold().
  int fold_peer() const { return is_extra() ? rank_ - core_ : rank_ + core_; }
  /// Below, of a rank of the core: whom it combines with at a level.
  int peer(int level) const { return rank_ ^ (1 << level); }
  bool is_lower(int level) const { return (rank_ & (1 << level)) == 0; }
  bool is_last(int level) const { return level == levels_ - 1; }

 private:
  int rank_;
  int size_;
  int core_ = 1;
  int levels_ = 0;
};

}  // namespace horo::collectives
