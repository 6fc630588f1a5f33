#include "collectives/ring/ring_schedule.h"

#include <algorithm>

namespace horo::collectives {

int RingSchedule::sent_chunk(std::size_t step) const {
  const auto n = static_cast<std::size_t>(size_);
  return static_cast<int>((static_cast<std::size_t>(rank_) + 2 * n - 1 - step % n) % n);
}

std::size_t segment_elements(std::size_t chunk_count, std::size_t element_bytes,
                             std::size_t largest_bytes) {
  constexpr std::size_t kSegmentsWanted = 4;
  constexpr std::size_t kSmallestBytes = 16 * 1024;
  const std::size_t wanted_bytes =
      (chunk_count * element_bytes + kSegmentsWanted - 1) / kSegmentsWanted;
  const std::size_t bytes = std::min(largest_bytes, std::max(kSmallestBytes, wanted_bytes));
  // Whole cache lines, so that segments of an aligned buffer stay aligned.
  const std::size_t line_elements = 64 / element_bytes;
  const std::size_t elements = bytes / element_bytes / line_elements * line_elements;
  return std::max<std::size_t>(
      elements, bytes < 64 ? std::max<std::size_t>(bytes / element_bytes, 1) : line_elements);
}

}  // namespace horo::collectives
