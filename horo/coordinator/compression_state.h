#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace horo::coordinator {

/// What compression keeps of one rank, as bytes: a header with a version, the state's identity (one
/// text per option and gradient), the number of steps and the values.
struct CompressionState {
  std::vector<std::string> identity;
  std::uint64_t step = 0;
  std::vector<float> values;
};

std::vector<std::byte> encode_state(const CompressionState& state);

/// The state in `bytes`. Throws InvalidArgument if they are something else, not whole or of another
/// version, or if its identity or number of values is not this.
CompressionState decode_state(std::span<const std::byte> bytes,
                              std::span<const std::string> identity, std::size_t values);

}  // namespace horo::coordinator
