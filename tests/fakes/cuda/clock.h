#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horo::fakes {

/// A vector clock. A lane is a sequence of operations, each of which starts after the previous one:
/// a stream, or a path of a graph. The clock contains, for each lane, the number of its operations
/// that happen before a point.
class Clock {
 public:
  void join(const Clock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t lane = 0; lane < other.ticks_.size(); ++lane)
      ticks_[lane] = std::max(ticks_[lane], other.ticks_[lane]);
  }
  void set(std::size_t lane, std::uint64_t tick) {
    if (ticks_.size() <= lane) ticks_.resize(lane + 1);
    ticks_[lane] = tick;
  }
  /// Whether operation number `tick` of `lane` happens before this point.
  bool contains(std::size_t lane, std::uint64_t tick) const {
    return lane < ticks_.size() && ticks_[lane] >= tick;
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

/// One operation and the clock of its start, which includes the operation itself.
struct Moment {
  Clock clock;
  std::size_t lane = 0;
  std::uint64_t tick = 0;
};

/// Returns a lane that no other stream or graph uses. Thread-safe.
std::size_t new_lane();

}  // namespace horo::fakes
