#pragma once

#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layers/linear.h"
#include "ops/parallel/collective_layers.h"

namespace horo::ops {

/// A Linear layer of which each rank of a group has a part. `in_features` and `out_features` are
/// those of the whole layer. Each rank draws the values that the whole layer has at first and keeps
/// its part of them. Inputs and gradients as Linear. Parameters: "weight" and "bias" of this rank.
///
/// The usual pair of an MLP or of attention is a ColumnParallelLinear, element-wise layers, and a
/// RowParallelLinear: one allreduce in forward and one in backward. Each rank computes and stores
/// 1/n of the layers. Source: Shoeybi et al., "Megatron-LM: training multi-billion parameter
/// language models using model parallelism" (2019).
class ParallelLinear : public Layer {
 public:
  std::vector<Layer*> children() override { return {&shard_}; }
  Parameter& weight() { return shard_.weight(); }  ///< of this rank
  Parameter& bias() { return shard_.bias(); }      ///< of this rank

  /// Replaces the values of this rank by its part of a whole layer: `weight` [out_features,
  /// in_features] and `bias` [out_features], in host memory. `bias` is not used if the layer has
  /// none. Not collective. Throws InvalidArgument for other shapes and on a device.
  void load(const Tensor& weight, const Tensor& bias);
  /// The weight of the whole layer, in host memory. Collective; blocks.
  virtual Tensor gather_weight() = 0;

 protected:
  /// How the whole layer is divided.
  struct Division {
    std::size_t in_parts = 1;   ///< of the input features
    std::size_t out_parts = 1;  ///< of the output features
    bool has_bias = true;       ///< on this rank
  };
  /// Makes the part of this rank. The derived class calls initialise_shard().
  ParallelLinear(Context& group, const LinearOptions& whole, const Division& division,
                 std::string name);
  /// Draws the values of the whole layer and keeps the part of this rank.
  void initialise_shard();
  /// The part of this rank of the weight of the whole layer.
  virtual Tensor part_of_weight(const Tensor& whole) const = 0;
  /// The part of this rank of the bias of the whole layer.
  virtual Tensor part_of_bias(const Tensor& whole) const = 0;

  Context& group_;             ///< borrowed
  const LinearOptions whole_;  ///< of the whole layer
  const std::string name_;     ///< of the operations
  Linear shard_;               ///< of this rank
};

/// Each rank has a range of the output features: rows of the weight, and their bias. Input: the
/// same on all ranks, [batch, ..., in_features]. Output: [batch, ..., out_features / ranks], the
/// features of this rank. The gradient by the input is summed over the ranks (AllreduceInBackward).
class ColumnParallelLinear : public ParallelLinear {
 public:
  /// Borrows `group`. `name` is that of the operations, different for each layer of the group.
  /// Throws InvalidArgument if the output features cannot be divided evenly.
  ColumnParallelLinear(Context& group, const LinearOptions& whole, const std::string& name);
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&input_, &shard_}; }
  Tensor gather_weight() override;

 private:
  Tensor part_of_weight(const Tensor& whole) const override;
  Tensor part_of_bias(const Tensor& whole) const override;

  AllreduceInBackward input_;
};

/// Each rank has a range of the input features: columns of the weight. Rank 0 of the group also has
/// the bias, so the sum over the ranks has it once. Input: [batch, ..., in_features / ranks], the
/// features of this rank. Output: the same on all ranks, [batch, ..., out_features], summed over
/// the ranks (AllreduceInForward).
class RowParallelLinear : public ParallelLinear {
 public:
  /// As ColumnParallelLinear, for the input features.
  RowParallelLinear(Context& group, const LinearOptions& whole, const std::string& name);
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&shard_, &output_}; }
  Tensor gather_weight() override;

 private:
  Tensor part_of_weight(const Tensor& whole) const override;
  Tensor part_of_bias(const Tensor& whole) const override;

  AllreduceInForward output_;
};

}  // namespace horo::ops
