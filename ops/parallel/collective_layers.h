#pragma once

#include <string>
#include <utility>

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// A layer whose forward or backward pass is a collective over a group, which is a Context or a
/// ProcessSet: the way in which collectives are differentiated. All ranks of the group must run the
/// passes of their layers with this name in the same order. Works in host memory, and on a device
/// in the order of the stream of the backend. Values are summed in the type of the tensor.
///
/// There are two conventions for the loss, and each layer states its own:
/// - Sum of losses: each rank has a loss of its own, and the derivative is that of their sum.
///   Allreduce, AllgatherRows and ReduceScatterRows.
/// - One loss: all ranks compute the same loss, which counts once, and each rank has a part of the
///   model. AllreduceInForward and AllreduceInBackward, the two conjugate operators of tensor
///   parallelism. Source: Shoeybi et al., "Megatron-LM" (2019), where they are called g and f.
///
/// Throws as the operations of Context do.
class CollectiveLayer : public Layer {
 protected:
  /// Borrows `group`. The operations are called "<name>.forward" and "<name>.backward". A layer
  /// needs a name that no other layer of the group has.
  CollectiveLayer(Context& group, std::string name);
  /// The pass of an operation.
  enum class PassKind { kForward, kBackward };
  /// Returns the sum over the ranks. Overwrites `x` if no other tensor shares its memory.
  Tensor sum(Tensor x, PassKind pass);
  /// Returns the rows (first dimension) of all ranks, in rank order.
  Tensor gather_rows(Tensor x, PassKind pass);
  /// Returns the rows of this rank of the sum over the ranks. Throws InvalidArgument if the number
  /// of rows is not a multiple of the number of ranks.
  Tensor scatter_rows(Tensor x, PassKind pass);

 private:
  std::string operation_name(PassKind pass) const;
  void* stream();
  void finish(const Handle& handle);

  Context& group_;
  std::string name_;
};

/// Forward: the sum over the ranks. Backward: the sum of the gradients over the ranks. For the sum
/// of losses. Cost: one allreduce in each pass.
class Allreduce : public CollectiveLayer {
 public:
  /// As CollectiveLayer.
  Allreduce(Context& group, std::string name) : CollectiveLayer(group, std::move(name)) {}
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
};

/// Forward: the sum over the ranks. Backward: the identity. For one loss: each rank has computed a
/// part of a sum, and all ranks continue with the whole sum and therefore have the same gradient.
/// It ends a section in which each rank has a part of the model. Cost: one allreduce in forward.
class AllreduceInForward : public CollectiveLayer {
 public:
  /// As CollectiveLayer.
  AllreduceInForward(Context& group, std::string name) : CollectiveLayer(group, std::move(name)) {}
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
};

/// Forward: the identity. Backward: the sum of the gradients over the ranks. For one loss: all
/// ranks have the same input, and each rank uses it in its part of the model. It begins a section
/// in which each rank has a part of the model. Cost: one allreduce in backward.
class AllreduceInBackward : public CollectiveLayer {
 public:
  /// As CollectiveLayer.
  AllreduceInBackward(Context& group, std::string name) : CollectiveLayer(group, std::move(name)) {}
  Tensor forward(Tensor input, const Pass& pass) override;
  /// An empty gradient is returned without a collective.
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
};

/// Forward: [rows, ...] to [ranks * rows, ...], the rows of all ranks in rank order. Backward: each
/// rank gets the sum over the ranks of the gradients of its rows. For the sum of losses. All ranks
/// must have the same number of rows. Cost: one allgather in forward, one reduce_scatter in
/// backward.
class AllgatherRows : public CollectiveLayer {
 public:
  /// As CollectiveLayer.
  AllgatherRows(Context& group, std::string name) : CollectiveLayer(group, std::move(name)) {}
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
};

/// Forward: [ranks * rows, ...] to [rows, ...], the rows of this rank of the sum over the ranks.
/// Backward: the gradients of the rows of all ranks. For the sum of losses. Cost: one
/// reduce_scatter in forward, one allgather in backward.
class ReduceScatterRows : public CollectiveLayer {
 public:
  /// As CollectiveLayer.
  ReduceScatterRows(Context& group, std::string name) : CollectiveLayer(group, std::move(name)) {}
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
};

}  // namespace horo::ops
