#pragma once

#include <cstddef>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// The options of Embedding.
struct EmbeddingOptions {
  std::size_t vocabulary = 0;  ///< required; tokens are 0 ... vocabulary - 1
  std::size_t width = 0;       ///< required; features of a token
  /// Length of the longest sequence, for learned positions, which are added to the features of the
  /// tokens; 0: none.
  std::size_t positions = 0;
};

/// The learned features of tokens: int32 [batch, ..., positions] to [batch, ..., positions, width].
/// Parameters: "weight" [vocabulary, width] and, with options.positions, "position_weight"
/// [positions, width]. Tokens have no gradient: backward() returns an empty tensor. A token outside
/// the vocabulary throws InvalidArgument on the CPU, and gives NaN on a device.
class Embedding : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit Embedding(const EmbeddingOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override;
  /// The options of the constructor.
  const EmbeddingOptions& options() const { return options_; }

 private:
  void on_move() override { tokens_ = Tensor(); }

  EmbeddingOptions options_;
  Parameter weight_;
  Parameter position_weight_;
  Tensor tokens_;  // of the latest training forward
};

}  // namespace horo::ops
