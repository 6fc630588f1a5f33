#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/data_type.h"
#include "horo/device/stream.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"

// The steps of the optimizers on a device. One launch handles up to 600 tensors. All pointers refer
// to device memory that must stay valid until the stream has executed the launch. Nothing blocks.
// Every element is read and written once, in words of 16 bytes if all arrays of a tensor are
// aligned to 16 bytes.
namespace horo::ops::device_kernels {

/// How gradients are scaled when they are read, and whether they are used at all.
struct GradientUse {
  /// The factor 1 / size for gradients that were summed over ranks. The product is rounded before
  /// it is multiplied by `factor`.
  float scale = 1;
  /// A second factor in device memory, so that the host need not wait for it. Null: none.
  const float* factor = nullptr;
  /// In device memory. If it is set and not 0, nothing is updated.
  const std::uint32_t* skip = nullptr;
  /// In device memory; replaces the learning rate of the options, also in a captured step. Null:
  /// not used.
  const float* learning_rate = nullptr;
  float learning_rate_factor = 1;  ///< of *learning_rate
};

/// The types of the gradients and of the copies of the new values. Both may be stored in memory of
/// their own or in a fused buffer.
struct UpdateTypes {
  DataType gradient = DataType::kFloat32;  ///< float32, float16 or bfloat16
  DataType copy = DataType::kFloat32;  ///< of `copy`: bfloat16 or float16; float32: there is none
};

struct SgdTensor {
  float* value;
  float* momentum;  ///< unused without momentum
  const void* gradient;
  void* copy;  ///< receives the new values in another type; unused if there is none
  std::size_t count;
};

/// Does what Sgd::step() does. Throws InvalidArgument for other types than those above.
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

/// Does what AdamW::step() does in step number `step`, counted from 1. Throws InvalidArgument for
/// other types and for options out of range.
void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, std::int64_t step,
                  const GradientUse& use = {});

/// The number of steps that an AdamW has made, in device memory. Steps that the device skips do not
/// count, and a captured step counts at each launch of its graph.
struct AdamWClock {
  std::int64_t steps = 0;
  float correction1 = 0, correction2 = 0;  ///< of the latest step
};

/// Counts a step for the following calls of update_adamw() with the same options, unless `skip` is
/// set and not 0. One launch of one thread. Throws InvalidArgument for options out of range.
void count_step(device::Stream& stream, const AdamWOptions& options, AdamWClock* clock,
                const std::uint32_t* skip = nullptr);
/// The same with the step number of `clock`.
void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                  const GradientUse& use = {});

}  // namespace horo::ops::device_kernels
