#pragma once

#include <cstddef>
#include <vector>

namespace horo::collectives {

/// `memory`, grown to hold `bytes`: staging that is kept between calls.
inline std::byte* at_least(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace horo::collectives
