#pragma once

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "ops/nn/initialise.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {

/// A layer of some parameters, without computation: matrices of several shapes and vectors.
class TrainedParameters : public Layer {
 public:
  TrainedParameters() {
    const std::vector<std::pair<std::string, Shape>> all = {
        {"wide.weight", {5, 13}},        {"wide.bias", {5}},         {"tall.weight", {11, 4}},
        {"filter.weight", {3, 2, 3, 3}}, {"output.weight", {2, 11}}, {"output.bias", {2}}};
    std::uint32_t seed = 0;
    for (const auto& [name, shape] : all) {
      Parameter& one = parameters_.emplace_back(make_parameter(name, shape));
      assign(one.value, varied_values(shape.count(), ++seed));
    }
  }
  Tensor forward(Tensor input, const Pass&) override { return input; }
  Tensor backward(Tensor gradient, const GradientReady&) override { return gradient; }
  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all;
    for (Parameter& one : parameters_) all.push_back(&one);
    return all;
  }
  Parameter& operator[](std::size_t index) { return parameters_[index]; }
  std::size_t size() const { return parameters_.size(); }

  /// The gradient of parameter `index` in a step. Differs by index, step and element.
  static std::vector<float> gradient(const Parameter& parameter, std::size_t index, int step) {
    return varied_values(parameter.value.count(),
                         static_cast<std::uint32_t>(100 * step + static_cast<int>(index)));
  }

 private:
  std::deque<Parameter> parameters_;
};

inline double norm_of(const reference::Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace horo::ops
