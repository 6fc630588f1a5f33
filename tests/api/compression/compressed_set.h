#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "horo/horo.h"

namespace horo {

/// Gradients of several shapes, with values that differ by rank, step, tensor and index. Like
/// gradients of networks, matrices have a few large singular values and noise.
class CompressedSet {
 public:
  explicit CompressedSet(int rank) : rank_(rank) {
    for (const Shape& shape : shapes()) values_.emplace_back(shape.count());
  }

  static std::vector<Shape> shapes() {
    return {{40, 25}, {40}, {16, 3, 5, 5}, {1}, {64, 32}, {31}, {9, 200}};
  }
  std::vector<NamedTensor> gradients() {
    std::vector<NamedTensor> named;
    for (std::size_t t = 0; t < values_.size(); ++t)
      named.push_back({"layer" + std::to_string(t), TensorView(values_[t].data(), shapes()[t])});
    return named;
  }
  void compute(int step) {
    for (std::size_t t = 0; t < values_.size(); ++t) {
      std::mt19937 random(static_cast<unsigned>(rank_ * 7919 + step * 104729) +
                          static_cast<unsigned>(t));
      const std::size_t columns = values_[t].size() / shapes()[t][0];
      for (std::size_t i = 0; i < values_[t].size(); ++i) {
        const auto row = static_cast<float>(i / columns);
        const auto column = static_cast<float>(i % columns);
        values_[t][i] = std::sin(row + 1) * std::cos(column * 2) +
                        0.3f * std::cos(row * 3) * std::sin(column + static_cast<float>(rank_)) +
                        0.1f * (static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
      }
    }
  }
  void fill(float value) {
    for (std::vector<float>& tensor : values_) tensor.assign(tensor.size(), value);
  }
  void multiply(float factor) {
    for (std::vector<float>& tensor : values_)
      for (float& x : tensor) x *= factor;
  }
  void set_in_each(float value) {
    for (std::vector<float>& tensor : values_) tensor[tensor.size() / 2] = value;
  }
  std::size_t count_tensors_with_non_finite() const {
    std::size_t found = 0;
    for (const std::vector<float>& tensor : values_) {
      bool is_finite = true;
      for (const float x : tensor) is_finite = is_finite && std::isfinite(x);
      found += !is_finite;
    }
    return found;
  }
  std::vector<float> all_values() const {
    std::vector<float> all;
    for (const std::vector<float>& tensor : values_)
      all.insert(all.end(), tensor.begin(), tensor.end());
    return all;
  }

 private:
  int rank_;
  std::vector<std::vector<float>> values_;
};

/// Fits a matrix of 24 by 20 to samples of a known matrix. Each rank has different samples.
class LeastSquares {
 public:
  explicit LeastSquares(int rank)
      : random_(static_cast<unsigned>(rank) + 1), weights_(kCount), target_(kCount) {
    for (std::size_t i = 0; i < kCount; ++i) target_[i] = std::sin(static_cast<float>(i * i));
    gradient_.resize(kCount);
  }
  std::vector<NamedTensor> gradients() {
    return {{"weights", TensorView(gradient_.data(), Shape{kRows, kColumns})}};
  }
  /// The gradient of the mean square over eight samples of uniform inputs.
  void compute_gradient() {
    gradient_.assign(kCount, 0);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int sample = 0; sample < 8; ++sample) {
      std::vector<float> input(kColumns);
      for (float& x : input) x = uniform(random_);
      for (std::size_t i = 0; i < kRows; ++i) {
        float error = 0;
        for (std::size_t j = 0; j < kColumns; ++j)
          error += (weights_[i * kColumns + j] - target_[i * kColumns + j]) * input[j];
        for (std::size_t j = 0; j < kColumns; ++j)
          gradient_[i * kColumns + j] += error * input[j] / 8;
      }
    }
  }
  void descend(float rate) {
    for (std::size_t i = 0; i < kCount; ++i) weights_[i] -= rate * gradient_[i];
  }
  /// Squared distance from the solution.
  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      sum += (weights_[i] - target_[i]) * (weights_[i] - target_[i]);
    return sum;
  }

 private:
  static constexpr std::size_t kRows = 24, kColumns = 20, kCount = kRows * kColumns;
  std::mt19937 random_;
  std::vector<float> weights_, target_, gradient_;
};

}  // namespace horo
