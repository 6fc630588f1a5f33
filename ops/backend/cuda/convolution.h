#pragma once

#include <cudnn.h>

#include <cstddef>
#include <optional>
#include <span>

#include "ops/backend/cuda/cudnn_descriptors.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/shapes.h"

namespace horo::ops::cuda {

/// An algorithm of cuDNN for one direction of a convolution.
template <typename Algorithm>
struct AlgorithmChoice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t workspace_bytes;
};

/// Returns the first algorithm of `ranked`, which lists the best one first, that cuDNN supports,
/// that gives the same bits in every run and that needs at most `workspace_bytes`. If `math_type`
/// is CUDNN_FMA_MATH, it must also use all bits of its factors. `Performance` is one of the three
/// types of cuDNN for such results.
template <typename Performance>
auto choose_algorithm(std::span<const Performance> ranked, cudnnMathType_t math_type,
                      std::size_t workspace_bytes) {
  using Algorithm = decltype(Performance::algo);
  const bool is_exact = math_type == CUDNN_FMA_MATH;
  std::optional<AlgorithmChoice<Algorithm>> choice;
  for (const Performance& one : ranked) {
    const bool drops_bits = one.mathType == CUDNN_TENSOR_OP_MATH ||
                            one.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (one.status != CUDNN_STATUS_SUCCESS || one.determinism != CUDNN_DETERMINISTIC ||
        one.memory > workspace_bytes || (is_exact && drops_bits))
      continue;
    choice = {one.algo, is_exact ? math_type : one.mathType, one.memory};
    break;
  }
  return choice;
}

/// How the algorithm of a direction is chosen in its first run.
enum class AlgorithmSearch {
  kHeuristic,  ///< by cuDNN's rules: the same one on each GPU of a kind, so the same bits every run
  /// Times all algorithms on the tensors of the first run. Often finds a faster one, but possibly
  /// another one in another run or on another rank, with other rounding. Waits for the GPU.
  kMeasured,
};

struct ConvolutionOptions {
  ImageFormat format{};
  bool allow_tf32 = false;  ///< see MatmulOptions
  AlgorithmSearch search = AlgorithmSearch::kHeuristic;
};

/// Two-dimensional convolution of one fixed shape in all directions: the counterpart of
/// cpu::ConvolutionKernel. Arrays are in GPU memory in the given format. Biases [out_channels] and
/// their gradients have the same type. Sums are in float32. Uses only algorithms that give the same
/// bits in every run and fit into the workspace of the first run; throws DeviceError if there is
/// none. Work is submitted to the stream. Used from one thread at a time.
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

  /// The parts of forward() and backward_weights() after the convolution. Do nothing without
  /// has_bias.
  void add_bias(const CudnnWork& work, const void* bias, void* output) const;
  void sum_bias_gradient(const CudnnWork& work, const void* output_gradient,
                         void* bias_gradient) const;

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
