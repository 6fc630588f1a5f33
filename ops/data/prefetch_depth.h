#pragma once

#include <algorithm>
#include <cstddef>

namespace horo::ops {

/// Chooses the number of batches to load ahead. The number doubles if training has to wait although
/// the batches were all loaded before: then it takes batches in bursts, or some take long to load,
/// and more of them help. If they were never all loaded, loading is too slow on average, and a
/// larger number would not help. Source: PrefetchAutotuner of TensorFlow's tf.data. Not
/// thread-safe.
class PrefetchDepth {
 public:
  /// Starts with `start` batches, at least 1, and never exceeds the larger of `start` and `limit`.
  PrefetchDepth(std::size_t start, std::size_t limit)
      : batches_(start), limit_(std::max(start, limit)) {}

  std::size_t batches() const { return batches_; }
  /// Notes that training takes a batch while `ready` batches are loaded.
  void note_take(std::size_t ready) {
    if (ready >= batches_) {
      was_full_ = true;
    } else if (ready == 0 && was_full_) {
      batches_ = std::min(2 * batches_, limit_);
      was_full_ = false;
    }
  }

 private:
  std::size_t batches_;
  std::size_t limit_;
  bool was_full_ = false;
};

}  // namespace horo::ops
