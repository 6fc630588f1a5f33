#include "ops/parallel/staleness_clock.h"

#include <algorithm>

namespace horo::ops {

StalenessClock::StalenessClock(std::size_t workers, std::uint64_t staleness)
    : staleness_(staleness), clocks_(workers, 0), is_finished_(workers, false) {}

std::uint64_t StalenessClock::slowest() const {
  std::uint64_t least = UINT64_MAX, most = 0;
  for (std::size_t worker = 0; worker < clocks_.size(); ++worker) {
    most = std::max(most, clocks_[worker]);
    if (!is_finished_[worker]) least = std::min(least, clocks_[worker]);
  }
  return have_all_finished() ? most : least;
}

// A worker that has finished may be behind slowest().
std::uint64_t StalenessClock::lead(std::size_t worker) const {
  const std::uint64_t least = slowest();
  return clocks_[worker] > least ? clocks_[worker] - least : 0;
}

bool StalenessClock::have_all_finished() const {
  return std::ranges::all_of(is_finished_, [](bool is_finished) { return is_finished; });
}

}  // namespace horo::ops
