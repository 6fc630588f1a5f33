#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/nn/layer.h"
#include "ops/tensor/tensor.h"

// The task of the programs in this folder: outputs of a fixed function of random inputs. Sample i
// is the same on every rank, so each rank can make the samples that it needs.

namespace horo::examples {

inline constexpr std::size_t kInputs = 16, kOutputs = 4;

struct Samples {
  ops::Tensor inputs, targets;  ///< [count, kInputs], [count, kOutputs]
};
/// Samples first, first + 1, ... first + count - 1.
Samples make_samples(std::uint64_t first, std::size_t count);

/// A number that changes if one of the values changes or if two of them are exchanged.
double checksum(const ops::Tensor& values);

}  // namespace horo::examples
