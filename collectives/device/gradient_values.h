#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/device/move_tiles.h"
#include "horo/base/data_type.h"
#include "horo/device/device.h"

// Kernels that examine and scale the gradients of a plan in device memory. All pointers refer to
// memory of the device of the stream. The functions enqueue their work and do not wait. Results
// have the same bits in every run, because every sum has a fixed order.

namespace horo::collectives {

/// What is known about the values of a tile or of a tensor.
struct ValueFindings {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  double squares = 0;           ///< the sum of the squares of the values
  std::uint64_t first = kNone;  ///< index of the first non-finite value in the tile or tensor
  double value = 0;             ///< that value
};

/// The tiles of one tensor in an array of findings.
struct TilesOfTensor {
  std::uint64_t begin, end;
  /// Whether the tensor is not included in the norm. Its values must still be finite.
  bool is_metric;
};

/// The first non-finite value in a list of tensors.
struct NonFiniteInTensors {
  std::uint64_t tensor = ValueFindings::kNone;  ///< kNone: all values are finite
  std::uint64_t index = 0;
  double value = 0;
};

/// The result for all gradients of a step.
struct GradientVerdict {
  double norm = 0;
  double factor = 1;  ///< by which scale_by_verdict() multiplies
  NonFiniteInTensors own, reduced;
};

/// Examines each tile of a table whose tensors have the floating-point type `type`. Writes the
/// findings of tile t to of_tiles[t]. One launch; reads each value once.
void examine_tiles(device::Stream& stream, const TileTable& table, DataType type,
                   ValueFindings* of_tiles);
/// Combines the findings of the tiles of each of `count` tensors. One launch.
void combine_tiles(device::Stream& stream, const TilesOfTensor* tensors, std::size_t count,
                   const ValueFindings* of_tiles, ValueFindings* of_tensors);
/// Writes the verdict on `count` tensors. `reduced` has the findings of the tensors after the
/// exchange. `own` has those from before the exchange; null if the tensors were not examined then.
/// The factor of the verdict is max_norm / norm if all reduced values are finite and the norm is
/// finite and above max_norm. Otherwise, the factor is 1. One launch.
void judge_gradients(device::Stream& stream, const TilesOfTensor* tensors, std::size_t count,
                     const ValueFindings* reduced, const ValueFindings* own, double max_norm,
                     GradientVerdict* verdict);
/// Multiplies all values of a table by the factor of the verdict, with the rounding of scale().
/// Reads and writes nothing if the factor is 1. One launch of at most `blocks` blocks.
void scale_by_verdict(device::Stream& stream, unsigned blocks, const TileTable& table,
                      DataType type, const GradientVerdict* verdict);

/// Loads the kernels of this file; see device::load_kernel().
void load_gradient_kernels(device::Device& device);

}  // namespace horo::collectives
