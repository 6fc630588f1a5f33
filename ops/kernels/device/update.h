#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/data_type.h"
#include "horo/base/device/stream.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"

// Optimisers' steps on a device: one launch for all tensors (of more than 600 tensors, one for each
// 600). All pointers are to memory of the device, and stay valid until the stream has come past.
// Nothing blocks. Every element is read and written once; in words of 16 bytes if all of a tensor's
// arrays begin at a multiple of that.
namespace horo::ops::device_kernels {

/// What a gradient is multiplied with as it is read, and whether it is used at all.
struct GradientUse {
  /// For what was summed over ranks: 1 / size. Rounds by itself, before the factor.
  float scale = 1;
  /// Multiplied too, if not null: from memory of the device, so that nobody waits for it.
  const float* factor = nullptr;
  /// If not null and it is not 0, nothing is updated.
  const std::uint32_t* skip = nullptr;
};

/// Where a tensor's gradient and a copy of its new values lie: in memory of its own or in a fused
/// buffer.
struct UpdateTypes {
  DataType gradient = DataType::kFloat32;  ///< float32, float16 or bfloat16
  DataType copy = DataType::kFloat32;  ///< of `copy`: bfloat16 or float16; float32: there is none
};

struct SgdTensor {
  float* value;
  float* momentum;  ///< unused without momentum
  const void* gradient;
  void* copy;  ///< the new values in another type, written on the way; unused if there is none
  std::size_t count;
};

/// What Sgd::step() does. Throws InvalidArgument for types other than those above.
void update_sgd(device::Stream& stream, std::span<const SgdTensor> tensors,
                const UpdateTypes& types, const SgdOptions& options, const GradientUse& use = {});

struct AdamWTensor {
  float* value;
  float* first_moment;
  float* second_moment;
  const void* gradient;
  void* copy;
  std::size_t count;
};

/// What AdamW::step() does as its step number `step`, from 1. Throws likewise, and for options out
/// of range.
void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, std::int64_t step,
                  const GradientUse& use = {});

/// How many steps an AdamW has made, in memory of the device: what is skipped there does not count,
/// and a graph of a step counts each time it is launched.
struct AdamWClock {
  std::int64_t steps = 0;
  float correction1 = 0, correction2 = 0;  ///< of the latest step
};

/// Counts one more step, unless `skip` is not null and not 0: that of the update_adamw() that
/// follow, with the same options. A launch of one thread. Throws likewise.
void count_step(device::Stream& stream, const AdamWOptions& options, AdamWClock* clock,
                const std::uint32_t* skip = nullptr);
/// The same as the step that `clock` says.
void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                  const GradientUse& use = {});

}  // namespace horo::ops::device_kernels
