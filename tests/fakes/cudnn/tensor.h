#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fakes/cuda/element.h"

namespace horo::fakes::dnn {

using Extents = std::array<std::int64_t, 4>;

/// A tensor [batch, channels, height, width], or the filters of a convolution.
struct Tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Extents extents{};
  Extents strides{};

  static Tensor packed(cudnnDataType_t type, cudnnTensorFormat_t format, const Extents& extents);

  bool is_known() const {
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF;
  }
  Element element() const {
    if (type == CUDNN_DATA_HALF) return Element::kFloat16;
    return type == CUDNN_DATA_FLOAT ? Element::kFloat : Element::kBFloat16;
  }
  std::size_t count() const;
  /// From the first byte to the end of the last value.
  std::size_t bytes() const;

  /// All values, as an array without gaps of the order of the extents.
  std::vector<float> load(const void* data) const;
  /// Writes alpha * values + beta * old. The old values are read only if beta is not 0.
  void store(void* data, const std::vector<float>& values, float alpha = 1, float beta = 0) const;
};

}  // namespace horo::fakes::dnn
