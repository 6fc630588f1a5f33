#include <fmt/format.h>

#include "horo/base/error.h"
#include "ops/backend/device/embedding.h"

namespace horo::ops::device_kernels {

// A counting sort, which is stable: the positions of a token stay in batch order, which fixes the
// order of the gradient sum. next[t + 1] first counts token t, then holds the end of its range.
TokenOrder sort_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary) {
  std::vector<std::uint32_t> next(vocabulary + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    HORO_CHECK(tokens[i] >= 0 && static_cast<std::size_t>(tokens[i]) < vocabulary,
               fmt::format("embedding: position {} of the batch has token {}; expected 0 to {}", i,
                           tokens[i], vocabulary - 1));
    ++next[static_cast<std::size_t>(tokens[i]) + 1];
  }
  TokenOrder order;
  for (std::size_t token = 0; token < vocabulary; ++token) {
    const std::uint32_t first = next[token], last = next[token + 1] += first;
    if (last > first) order.uses.push_back({static_cast<std::int32_t>(token), first, last});
  }
  order.places.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    order.places[next[static_cast<std::size_t>(tokens[i])]++] = static_cast<std::uint32_t>(i);
  return order;
}

}  // namespace horo::ops::device_kernels
