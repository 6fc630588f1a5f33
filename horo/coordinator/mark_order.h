#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/collectives.h"

namespace horo::coordinator {

/// Notes in which order the gradients of a pass are marked. note() may be called from several
/// threads at once; the others by one, while nobody notes.
class MarkOrder {
 public:
  explicit MarkOrder(std::size_t gradients) : positions_(gradients) {}

  void note(std::size_t gradient) { positions_[gradient] = ++noted_; }
  /// Another pass begins.
  void clear();
  /// Rank 0's order, first to last; gradients that it has not noted come last, by falling index.
  /// Collective. If it fails, messages may still be written here until the communicator goes, which
  /// this outlives.
  std::vector<std::size_t> agree(collectives::Collectives& collectives);

 private:
  std::vector<std::atomic<std::uint64_t>> positions_;  // 0: not noted
  std::atomic<std::uint64_t> noted_{0};
  std::vector<std::int64_t> order_;  // that agree() broadcasts
};

}  // namespace horo::coordinator
