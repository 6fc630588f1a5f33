#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "horo/base/compression.h"

namespace horo::plan {

/// Returns "compression.kind = powersgd", "compression.rank = 4" and so on: the options that apply
/// to the kind, for comparisons between ranks and with saved states.
std::vector<std::string> describe_compression(const Compression& compression);

/// The state of compression on one rank. encode_state() writes a header with a version, the number
/// of steps, the identity and the values. The identity has one text for each option, one for the
/// rank and one for each gradient.
struct CompressionState {
  std::vector<std::string> identity;
  std::uint64_t step = 0;
  std::vector<float> values;
};

std::vector<std::byte> encode_state(const CompressionState& state);

/// Decodes a state. Throws InvalidArgument if `bytes` is not a complete state of this version, or
/// if its identity or its number of values differs from the arguments.
CompressionState decode_state(std::span<const std::byte> bytes,
                              std::span<const std::string> identity, std::size_t values);

}  // namespace horo::plan
