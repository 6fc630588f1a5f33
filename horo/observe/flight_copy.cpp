#include "horo/observe/flight_copy.h"

#include <algorithm>
#include <cstring>

namespace horo::observe {

void drop_changed_rows(std::span<std::byte> copy, const FlightTable& open,
                       std::span<const std::uint64_t> sequences) {
  static_assert(offsetof(FlightRecord, sequence) == 0);
  constexpr std::uint64_t kFree = 0;
  for (std::size_t row = 0; row < std::min<std::size_t>(open.count, sequences.size()); ++row) {
    std::byte* const at = copy.data() + open.offset + row * sizeof(FlightRecord);
    if (std::memcmp(at, &sequences[row], sizeof kFree) != 0) std::memcpy(at, &kFree, sizeof kFree);
  }
}

}  // namespace horo::observe
