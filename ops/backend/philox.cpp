#include "ops/backend/philox.h"

namespace horo::ops {
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_high,
                                    std::uint64_t counter_low) {
  const PhiloxWords words = philox_rounds(key, counter_high, counter_low);
  return std::to_array(words.word);
}

}  // namespace horo::ops
