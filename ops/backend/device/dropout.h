#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/float16.h"
#include "horo/device/stream.h"

namespace horo::ops::device_kernels {

/// The inputs of the choice of features, as in cpu::draw_dropout_mask().
struct DropoutDraw {
  std::uint64_t key;
  const std::uint64_t* samples;  ///< global index of each row; in memory of the device
  float drop_probability;        ///< in [0, 1)
  float factor;                  ///< of what is kept
  /// In device memory: the key is mix(key, *step), also in a captured step. Null: `key` itself.
  const std::uint64_t* step = nullptr;
};

/// y[s * features + f] = x[...] * factor where the mask of the CPU keeps the feature, else 0. y may
/// be equal to x. The backward pass calls this on the gradient: the mask is drawn again, not
/// stored. One launch; does not block. T is float, Float16 or BFloat16. Cost: x is read and y is
/// written once, plus one call of Philox for four features.
template <typename T>
void dropout(device::Stream& stream, T* y, const T* x, std::size_t rows, std::size_t features,
             const DropoutDraw& draw);

}  // namespace horo::ops::device_kernels
