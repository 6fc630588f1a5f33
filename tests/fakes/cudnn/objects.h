#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "tests/fakes/cuda/handles.h"
#include "tests/fakes/cuda/violation.h"
#include "tests/fakes/cudnn/tensor.h"

namespace horo::fakes::dnn {

/// A window that moves over images: that of a convolution or of pooling. Each pair is [down,
/// right].
struct Window {
  using Pair = std::array<std::int64_t, 2>;
  Pair size{}, padding{}, stride{}, dilation{1, 1};

  /// The output's extent in direction `d` for an input of `extent` pixels.
  std::int64_t output(std::size_t d, std::int64_t extent) const {
    return (extent + 2 * padding[d] - ((size[d] - 1) * dilation[d] + 1)) / stride[d] + 1;
  }
  Extents output(const Extents& input, std::int64_t channels) const {
    return {input[0], channels, output(0, input[2]), output(1, input[3])};
  }
};

}  // namespace horo::fakes::dnn

// The objects behind cuDNN's handles. A descriptor has no value until it is set.

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  static constexpr const char* kName = "tensor descriptor";
  std::optional<horo::fakes::dnn::Tensor> value;
};

struct cudnnFilterStruct {
  static constexpr const char* kName = "filter descriptor";
  struct Filter {
    horo::fakes::dnn::Tensor tensor;
    cudnnTensorFormat_t format;
  };
  std::optional<Filter> value;
};

struct cudnnConvolutionStruct {
  static constexpr const char* kName = "convolution descriptor";
  struct Convolution {
    horo::fakes::dnn::Window window;  // without its size, which is that of the filter
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  };
  std::optional<Convolution> value;
};

struct cudnnPoolingStruct {
  static constexpr const char* kName = "pooling descriptor";
  struct Pooling {
    cudnnPoolingMode_t mode;
    horo::fakes::dnn::Window window;
  };
  std::optional<Pooling> value;
};

namespace horo::fakes::dnn {

/// The live handles of the library.
Handles<cudnnContext>& contexts();

/// The live descriptors of one type.
template <typename Descriptor>
Handles<Descriptor>& descriptors() {
  static auto* handles = new Handles<Descriptor>(Descriptor::kName);
  return *handles;
}

/// The value of a descriptor. It is a violation if the descriptor does not exist or was not set.
template <typename Descriptor>
auto value_of(const char* call, Descriptor* handle) {
  const auto descriptor = descriptors<Descriptor>().get(call, handle);
  if (!descriptor->value)
    violation(call, std::string("a ") + Descriptor::kName, "the descriptor was not set");
  return *descriptor->value;
}

}  // namespace horo::fakes::dnn
