#pragma once

#include <span>
#include <vector>

#include "horo/horo.h"
#include "ops/backend/device/update/step_state.h"
#include "ops/nn/layer.h"

namespace horo::ops {

using device_kernels::StepRequests;

/// What the ranks exchange in a step besides the gradients. The exchange averages these values.
struct StepScalars {
  float loss = 0;
  StepRequests requests;
};

/// One block of memory with the gradients of a model and its StepScalars, in the memory of the
/// backend of the model. Gradients of one type are contiguous, in the order in which backward
/// computes them. Each starts at a multiple of kAlignment bytes.
///
/// In host memory the block is an arena (Context::allocate), so that the exchange inside a node
/// reads the gradients in place. The gradients stay where they are if a node has too little shared
/// memory, which rank 0 logs, or if every node has one rank. On a device the padding belongs to the
/// exchanged tensors, so that every bucket is one range that needs no fused buffer; it is zero.
class GradientBlock {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr const char* kScalarsName = "train.loss";

  /// Points the gradient of every parameter into the block. The parameters must outlive this
  /// object. Collective. Work that clears device memory is submitted to the stream of `backend`.
  GradientBlock(Context& context, Backend& backend, const std::vector<Parameter*>& parameters);

  /// The tensors for a GradientSync: one per parameter, in order, then the StepScalars.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// float32 [4]: where this rank writes its StepScalars.
  Tensor& scalars() { return scalars_; }
  StepScalars& own_scalars() { return *reinterpret_cast<StepScalars*>(scalars_.raw()); }

 private:
  Tensor scalars_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace horo::ops
