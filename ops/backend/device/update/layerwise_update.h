#pragma once

#include <cstddef>
#include <span>

#include "horo/base/data_type.h"
#include "horo/device/stream.h"
#include "ops/backend/device/update/update.h"

// Steps of optimizers whose rate depends on the norms of whole tensors, on a device. As update.h.
// The norms stay in device memory, so nothing waits for them. Sums are in double, in an order that
// depends only on sizes and alignments: results have the same bits in every run. Three launches for
// each 600 tensors: one measures the tensors, one computes the ratios, one updates.
namespace horo::ops {

struct LarsOptions;

namespace device_kernels {

/// The bytes of `scratch` that calls for tensors with these numbers of elements need. Calls that
/// use the same scratch must be on the same stream.
std::size_t layerwise_scratch_bytes(std::span<const std::size_t> counts);

/// Does what Lars::step() does with matrices.
void update_lars(device::Stream& stream, std::span<const SgdTensor> tensors,
                 const UpdateTypes& types, const LarsOptions& options, std::byte* scratch,
                 const GradientUse& use = {});

/// Does what Lamb::step() does with matrices, in the step that `clock` has counted. Reads the
/// gradients once, and values and moments twice.
void update_lamb(device::Stream& stream, std::span<const AdamWTensor> tensors,
                 const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                 std::byte* scratch, const GradientUse& use = {});

struct MuonTensor {
  float* direction;
  float* momentum;
  const void* gradient;
  std::size_t count;
};

/// Updates the momentum of a matrix and writes the direction, scaled to the norm 1, for which Muon
/// computes an orthogonal matrix. If *use.skip is not 0, the momentum does not change and the
/// direction is undefined. Three launches.
void muon_direction(device::Stream& stream, const MuonTensor& tensor, DataType gradient_type,
                    float momentum, bool nesterov, std::byte* scratch, const GradientUse& use = {});

}  // namespace device_kernels
}  // namespace horo::ops
