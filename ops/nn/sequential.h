#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/fusion/fusion.h"
#include "ops/nn/fusion/stage.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// A layer that owns other layers and applies them in order. Names of parameters and buffers begin
/// with the name of their layer, "conv1.weight", or with its index, "0.weight". Every layer gets
/// its own pass.seed, derived from pass.seed and the name of the layer. Errors name the layer. On a
/// backend that fuses layers, groups of them are computed together; see fuse().
class Sequential : public Layer {
 public:
  /// Appends a layer. Throws InvalidArgument if `name` is empty or taken.
  Sequential& add(std::string name, std::unique_ptr<Layer> layer);
  /// The same, with the index of the layer as its name.
  Sequential& add(std::unique_ptr<Layer> layer);
  /// The same for a layer by value.
  template <std::derived_from<Layer> T>
  Sequential& add(std::string name, T layer) {
    return add(std::move(name), std::unique_ptr<Layer>(std::make_unique<T>(std::move(layer))));
  }
  /// The same, with the index of the layer as its name.
  template <std::derived_from<Layer> T>
  Sequential& add(T layer) {
    return add(std::unique_ptr<Layer>(std::make_unique<T>(std::move(layer))));
  }

  std::size_t size() const { return stages_.size(); }  ///< the number of layers
  /// The name of layer `index`.
  const std::string& name_of(std::size_t index) const { return stages_[index].name; }
  /// The layers with their names, in forward order.
  const std::vector<Stage>& stages() const { return stages_; }
  /// The layer `index`.
  Layer& operator[](std::size_t index) { return *stages_[index].layer; }
  /// The same, read-only.
  const Layer& operator[](std::size_t index) const { return *stages_[index].layer; }

  Tensor forward(Tensor input, const Pass& pass) override;
  /// Stops at a layer that returns an empty gradient. Throws InvalidArgument if a layer before it
  /// has parameters.
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Layer*> children() override;

 private:
  void on_move() override;

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Stage> stages_;  // one for each layer
  FusedStages fused_;          // the stages that passes use
};

}  // namespace horo::ops
