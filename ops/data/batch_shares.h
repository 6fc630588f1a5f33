#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace horo::ops {

/// How the rows of a step are divided between the ranks: rank r gets a contiguous part in
/// proportion to its weight, in the order of the ranks. Immutable.
class BatchShares {
 public:
  /// Equal parts. Throws InvalidArgument for less than one rank.
  explicit BatchShares(int ranks);
  /// weights[r] is that of rank r; only their ratios matter. Each rank gets at least `least` rows
  /// of a step that has enough rows. Throws InvalidArgument, with the rank, for a weight that is
  /// not finite and above 0.
  explicit BatchShares(std::vector<double> weights, std::size_t least = 0);

  std::size_t ranks() const { return weights_.size(); }  ///< the number of ranks
  /// The rows of each rank in a step of `rows` rows, rounded by the largest remainder; the lower
  /// rank gets the row if remainders are equal. Takes O(n log n) for n ranks.
  std::vector<std::size_t> counts(std::size_t rows) const;

  /// The rows of a rank.
  struct Part {
    std::uint64_t first = 0;  ///< row of the step
    std::size_t count = 0;    ///< rows
  };
  /// The rows of `rank` in a step of `rows` rows.
  Part part(int rank, std::size_t rows) const;

 private:
  bool is_equal_;
  std::vector<double> weights_;
  std::size_t least_;
};

}  // namespace horo::ops
