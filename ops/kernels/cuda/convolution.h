#pragma once

#include <cudnn.h>

#include <optional>

#include "ops/kernels/cuda/algorithm_choice.h"
#include "ops/kernels/cuda/cudnn_descriptors.h"
#include "ops/kernels/cuda/cudnn_handle.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::cuda {

/// How an algorithm is found, once, in the first run of each direction.
enum class AlgorithmSearch {
  kHeuristic,  ///< by cuDNN's rules: the same one on each GPU of a kind, so the same bits every run
  /// By timing all of them, on the tensors of the first run: often a faster one, but another one in
  /// another run or rank, with other roundings. Waits for the GPU.
  kMeasured,
};

struct ConvolutionOptions {
  ImageFormat format{};
  bool allow_tf32 = false;  ///< see MatmulOptions
  AlgorithmSearch search = AlgorithmSearch::kHeuristic;
};

/// Two-dimensional convolution of one fixed shape in all directions; cpu::ConvolutionKernel's
/// counterpart. Arrays lie in the GPU's memory as the format says, biases [out_channels] and their
/// gradients in the same type; sums are in float32. Only algorithms that give the same bits every
/// time, and need no more than the workspace of the first run, are taken; DeviceError if there is
/// none. Work is given to the stream; used from one thread at a time.
class ConvolutionKernel {
 public:
  /// Needs no GPU.
  explicit ConvolutionKernel(const ConvolutionShape& shape, const ConvolutionOptions& options = {});

  /// Writes output. `bias` is null without has_bias.
  void forward(const CudnnWork& work, const void* input, const void* weights, const void* bias,
               void* output);
  /// Overwrites input_gradient.
  void backward_data(const CudnnWork& work, const void* weights, const void* output_gradient,
                     void* input_gradient);
  /// Overwrites weights_gradient and, with has_bias, bias_gradient.
  void backward_weights(const CudnnWork& work, const void* input, const void* output_gradient,
                        void* weights_gradient, void* bias_gradient);

  const ConvolutionDescription& description() const { return description_; }
  const TensorDescription& input() const { return input_; }
  const TensorDescription& output() const { return output_; }
  const FilterDescription& filter() const { return filter_; }

 private:
  template <typename Algorithm>
  using Choice = std::optional<AlgorithmChoice<Algorithm>>;

  ConvolutionShape shape_;
  ConvolutionOptions options_;
  TensorDescription input_, output_, bias_;
  FilterDescription filter_;
  ConvolutionDescription description_;
  cudnnMathType_t math_type_;
  // since the first run of each direction
  Choice<cudnnConvolutionFwdAlgo_t> forward_;
  Choice<cudnnConvolutionBwdDataAlgo_t> backward_data_;
  Choice<cudnnConvolutionBwdFilterAlgo_t> backward_weights_;
};

}  // namespace horo::ops::cuda
