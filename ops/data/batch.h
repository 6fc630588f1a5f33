#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/data/global_sampler.h"
#include "ops/tensor/pixel_scale.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// The samples of this rank in one step, in host memory or in the memory of a device.
struct Batch {
  EpochStep where;         ///< the step of which the samples are
  Tensor inputs;           ///< [b, ...], of the form Dataset::input(); b may be 0
  Tensor targets;          ///< [b, ...], of the form Dataset::target()
  Tensor samples;          ///< int64 [b]: the indices in the data set
  bool is_pinned = false;  ///< a device can copy the tensors while the host continues
  /// The number of rows at the end that have the weight 0: they fill up a batch, or replace samples
  /// that cannot be read. They add nothing to losses, gradients and scores.
  std::size_t padding = 0;
  /// If set, `inputs` are uint8 pixels, which are normalised before the model computes; one scale
  /// per channel.
  std::shared_ptr<const std::vector<PixelScale>> pixel_scales{};
  /// If set, the pixels are cropped and flipped when they are normalised: int32 [b, 3], the
  /// ImageCrop of each row.
  std::optional<Tensor> crops{};

  std::size_t rows() const { return samples.count(); }  ///< samples, with padding
  /// The rows of weight 1.
  std::size_t counted_rows() const { return rows() - padding; }
  /// For Pass::samples.
  std::span<const std::uint64_t> sample_indices() const {
    return {reinterpret_cast<const std::uint64_t*>(samples.raw()), samples.count()};
  }
};

/// Returns a batch with the properties of `batch` whose tensors are `function(tensor)` of those of
/// `batch`, called in the order of the members.
template <typename Function>
Batch map_tensors(const Batch& batch, Function function) {
  Batch result{.where = batch.where};
  result.inputs = function(batch.inputs);
  result.targets = function(batch.targets);
  result.samples = function(batch.samples);
  if (batch.crops) result.crops = function(*batch.crops);
  result.is_pinned = batch.is_pinned;
  result.padding = batch.padding;
  result.pixel_scales = batch.pixel_scales;
  return result;
}

/// Returns rows [first, first + count) of a batch. They share its memory.
Batch rows_of(const Batch& batch, std::size_t first, std::size_t count);

}  // namespace horo::ops
