#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "horo/base/compression.h"

namespace horo::plan {

/// Returns one text for each option that applies to compression.kind, such as
/// "compression.rank = 4". The first text is that of the kind. Ranks compare the texts with each
/// other and with those of saved states.
std::vector<std::string> describe_compression(const Compression& compression);

/// The state of compression on one rank.
struct CompressionState {
  /// One text for each option, one for the rank and the number of ranks, and one for each gradient.
  std::vector<std::string> identity;
  std::uint64_t step = 0;     ///< the number of steps so far
  std::vector<float> values;  ///< residual and factor of each gradient, in registration order
};

/// Encodes a state, together with the version of the format, in the byte order of the machine.
std::vector<std::byte> encode_state(const CompressionState& state);

/// Decodes a state. Throws InvalidArgument if `bytes` is not a complete state of this version. Also
/// throws it if the identity of the state is not `identity` or the number of its values is not
/// `values`.
CompressionState decode_state(std::span<const std::byte> bytes,
                              std::span<const std::string> identity, std::size_t values);

}  // namespace horo::plan
