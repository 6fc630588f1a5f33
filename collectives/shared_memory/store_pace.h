#pragma once

#include <cstddef>

namespace horo::collectives {

/// Notices when plain stores have become several times as slow as they were: the ranks' cores no
/// longer share a cache. One slow stretch proves nothing (a rank may have lost its core for a
/// moment), two in a row do.
class StorePace {
 public:
  /// Where cores share no cache plain stores are 4 to 7 times as slow.
  static constexpr double kFarSlower = 3;

  /// Takes note of a stretch of an exchange, at least a MiB. Returns whether this one and the one
  /// before were far slower than the fastest so far.
  bool has_dropped(std::size_t bytes, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds;
    if (rate > fastest_) fastest_ = rate;
    slow_stretches_ = rate * kFarSlower < fastest_ ? slow_stretches_ + 1 : 0;
    return slow_stretches_ >= 2;
  }
  /// The stretch that comes next does not follow the one before.
  void begin() { slow_stretches_ = 0; }

 private:
  double fastest_ = 0;
  int slow_stretches_ = 0;
};

}  // namespace horo::collectives
