#pragma once

#include <span>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// One block of memory with the gradients of a model and its loss, in the memory of the backend of
/// the model. Gradients of one type are contiguous, in the order in which backward computes them.
/// Each starts at a multiple of kAlignment bytes.
///
/// In host memory the block is an arena (Context::allocate), so that the exchange inside a node
/// reads the gradients in place. The gradients stay where they are if a node has too little shared
/// memory, which rank 0 logs, or if every node has one rank. On a device the padding belongs to the
/// exchanged tensors, so that every bucket is one range that needs no fused buffer; it is zero.
class GradientBlock {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr const char* kLossName = "train.loss";

  /// Points the gradient of every parameter into the block. The parameters must outlive this
  /// object. Collective. Work that clears device memory is submitted to the stream of `backend`.
  GradientBlock(Context& context, Backend& backend, const std::vector<Parameter*>& parameters);

  /// The tensors for a GradientSync: one per parameter, in order, then the loss.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// float32, one element: where this rank writes its loss.
  Tensor& loss() { return loss_; }

 private:
  Tensor loss_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace horo::ops
