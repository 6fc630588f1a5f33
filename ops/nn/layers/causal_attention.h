#pragma once

#include <cstddef>
#include <vector>

#include "ops/nn/layers/linear.h"

namespace horo::ops {

/// The options of CausalAttention.
struct CausalAttentionOptions {
  std::size_t width = 0;  ///< required; features of a position
  std::size_t heads = 1;  ///< must divide the width
};

/// Causal multi-head self-attention, [batch, positions, width] to the same shape: the output of a
/// position depends on this and on earlier positions only. A Linear "qkv" gives queries, keys and
/// values; in each head the values are averaged with softmax(query * key / sqrt(width / heads)); a
/// Linear "output" combines the heads. Source: Vaswani et al., "Attention is all you need" (2017).
/// Parameters: "qkv.weight" [3 width, width], "qkv.bias" [3 width], with the rows of all queries
/// first, then of keys, then of values, each by head; "output.weight" [width, width], "output.bias"
/// [width].
/// On a device, a head has at most 128 features.
class CausalAttention : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit CausalAttention(const CausalAttentionOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override { return {&qkv_, &output_}; }
  /// The options of the constructor.
  const CausalAttentionOptions& options() const { return options_; }

 private:
  void on_move() override;

  CausalAttentionOptions options_;
  Linear qkv_;
  Linear output_;
  // of the latest training forward:
  AttentionShape shape_;
  Tensor projected_;  // the output of qkv_
  Tensor attended_;   // the input of output_
  Tensor kept_;       // of Backend::attention()
};

}  // namespace horo::ops
