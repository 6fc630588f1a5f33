#include "horo/base/hash.h"

#include <array>
#include <bit>

namespace horo {

// Uses four chains, so that their multiplications overlap. Each step is a bijection of the chain's
// state for a given word, and of the word for a given state. If only one word of a chain differs
// between two blocks, the final states of the chain therefore differ.
std::uint64_t hash_contents(const void* data, std::size_t bytes) {
  constexpr std::size_t kChains = 4;
  constexpr std::size_t kBlockBytes = kChains * sizeof(std::uint64_t);
  constexpr std::uint64_t kOddFactor = 0xd6e8feb86659fd93ull;
  std::array<std::uint64_t, kChains> chains = {1, 2, 3, 4};
  const auto* at = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  for (; left >= kBlockBytes; left -= kBlockBytes, at += kBlockBytes) {
    std::array<std::uint64_t, kChains> words;
    std::memcpy(words.data(), at, kBlockBytes);
    for (std::size_t c = 0; c < kChains; ++c)
      chains[c] = std::rotl((chains[c] ^ words[c]) * kOddFactor, 29);
  }
  return Hash().add(bytes).add_bytes(chains.data(), kBlockBytes).add_bytes(at, left).value();
}

}  // namespace horo
