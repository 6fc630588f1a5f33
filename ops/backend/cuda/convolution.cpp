#include "ops/backend/cuda/convolution.h"

#include <fmt/format.h>

#include <array>

#include "horo/base/error.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/matrix.h"

namespace horo::ops::cuda {
namespace {

constexpr float kOne = 1, kZero = 0;

const ConvolutionShape& checked(const ConvolutionShape& shape) {
  HORO_CHECK(shape.input.count() > 0 && shape.out_channels > 0 && shape.window.size > 0 &&
                 shape.window.stride > 0 && shape.window.fits(shape.input.height) &&
                 shape.window.fits(shape.input.width),
             fmt::format("Convolution: [{}, {}, {}, {}] to {} channels with a window of {}, "
                         "stride {} and padding {} has no output",
                         shape.input.batch, shape.input.channels, shape.input.height,
                         shape.input.width, shape.out_channels, shape.window.size,
                         shape.window.stride, shape.window.padding));
  return shape;
}

/// Sets `choice` to the best algorithm if it is not set yet. `rank(room, &count, list)` requests a
/// ranking from cuDNN.
template <typename Performance, typename Choice, typename Rank>
void choose_once(Choice& choice, const char* direction, cudnnMathType_t math_type,
                 std::size_t workspace_bytes, Rank rank) {
  if (!choice) {
    std::array<Performance, 16> ranked{};
    int count = 0;
    rank(static_cast<int>(ranked.size()), &count, ranked.data());
    choice = choose_algorithm(
        std::span<const Performance>(ranked.data(), static_cast<std::size_t>(count)), math_type,
        workspace_bytes);
    if (!choice)
      throw DeviceError(
          fmt::format("cuDNN has no algorithm for this convolution's {} that gives the same bits "
                      "every time within {} bytes of workspace; give it a larger workspace",
                      direction, workspace_bytes));
  }
  // The algorithm of the first run is kept, so a later run needs at least its workspace. Another
  // algorithm could give other bits.
  HORO_CHECK(
      workspace_bytes >= choice->workspace_bytes,
      fmt::format("Convolution: workspace has {} bytes; the algorithm of the first {} requires {}",
                  workspace_bytes, direction, choice->workspace_bytes));
}

template <typename T>
void sum_channels(const CudnnWork& work, const ConvolutionShape& shape, const void* images,
                  void* sums) {
  const ImageBatch output = shape.output();
  const std::size_t pixels = output.batch * output.height * output.width;
  const std::size_t scratch = device_kernels::column_sums_scratch(pixels, output.channels);
  HORO_CHECK(
      work.workspace.size() >= scratch * sizeof(float),
      fmt::format("Convolution: workspace has {} bytes; the gradient of the bias requires {}",
                  work.workspace.size(), scratch * sizeof(float)));
  device_kernels::column_sums(work.stream, static_cast<T*>(sums), static_cast<const T*>(images),
                              pixels, output.channels,
                              reinterpret_cast<float*>(work.workspace.data()));
}

}  // namespace

ConvolutionKernel::ConvolutionKernel(const ConvolutionShape& shape,
                                     const ConvolutionOptions& options)
    : shape_(checked(shape)),
      options_(options),
      input_(shape.input, options.format),
      output_(shape.output(), options.format),
      bias_(TensorDescription::per_channel(shape.out_channels, options.format)),
      filter_(shape, options.format),
      description_(shape.window, options.format.type, options.allow_tf32),
      math_type_(description_.math_type()) {}

void ConvolutionKernel::forward(const CudnnWork& work, const void* input, const void* weights,
                                const void* bias, void* output) {
  const cudnnHandle_t handle = work.handle();
  description_.set_math_type(math_type_);
  choose_once<cudnnConvolutionFwdAlgoPerf_t>(
      forward_, "forward pass", math_type_, work.workspace.size(),
      [&](int room, int* count, auto* list) {
        if (options_.search == AlgorithmSearch::kHeuristic)
          HORO_CUDNN(get_forward_algorithm, handle, input_.get(), filter_.get(), description_.get(),
                     output_.get(), room, count, list);
        else
          HORO_CUDNN(find_forward_algorithm, handle, input_.get(), input, filter_.get(), weights,
                     description_.get(), output_.get(), output, room, count, list,
                     work.workspace.data(), work.workspace.size());
      });
  // The algorithm may have been ranked for another math type than the one of the request. cuDNN
  // requires the math type that belongs to the algorithm.
  description_.set_math_type(forward_->math_type);
  HORO_CUDNN(convolution_forward, handle, &kOne, input_.get(), input, filter_.get(), weights,
             description_.get(), forward_->algorithm, work.workspace.data(), work.workspace.size(),
             &kZero, output_.get(), output);
  add_bias(work, bias, output);
}

void ConvolutionKernel::add_bias(const CudnnWork& work, const void* bias, void* output) const {
  if (shape_.has_bias)
    HORO_CUDNN(add_tensor, work.handle(), &kOne, bias_.get(), bias, &kOne, output_.get(), output);
}

void ConvolutionKernel::backward_data(const CudnnWork& work, const void* weights,
                                      const void* output_gradient, void* input_gradient) {
  const cudnnHandle_t handle = work.handle();
  description_.set_math_type(math_type_);
  choose_once<cudnnConvolutionBwdDataAlgoPerf_t>(
      backward_data_, "gradient by the input", math_type_, work.workspace.size(),
      [&](int room, int* count, auto* list) {
        if (options_.search == AlgorithmSearch::kHeuristic)
          HORO_CUDNN(get_backward_data_algorithm, handle, filter_.get(), output_.get(),
                     description_.get(), input_.get(), room, count, list);
        else
          HORO_CUDNN(find_backward_data_algorithm, handle, filter_.get(), weights, output_.get(),
                     output_gradient, description_.get(), input_.get(), input_gradient, room, count,
                     list, work.workspace.data(), work.workspace.size());
      });
  description_.set_math_type(backward_data_->math_type);
  HORO_CUDNN(convolution_backward_data, handle, &kOne, filter_.get(), weights, output_.get(),
             output_gradient, description_.get(), backward_data_->algorithm, work.workspace.data(),
             work.workspace.size(), &kZero, input_.get(), input_gradient);
}

void ConvolutionKernel::backward_weights(const CudnnWork& work, const void* input,
                                         const void* output_gradient, void* weights_gradient,
                                         void* bias_gradient) {
  const cudnnHandle_t handle = work.handle();
  description_.set_math_type(math_type_);
  choose_once<cudnnConvolutionBwdFilterAlgoPerf_t>(
      backward_weights_, "gradient by the weights", math_type_, work.workspace.size(),
      [&](int room, int* count, auto* list) {
        if (options_.search == AlgorithmSearch::kHeuristic)
          HORO_CUDNN(get_backward_filter_algorithm, handle, input_.get(), output_.get(),
                     description_.get(), filter_.get(), room, count, list);
        else
          HORO_CUDNN(find_backward_filter_algorithm, handle, input_.get(), input, output_.get(),
                     output_gradient, description_.get(), filter_.get(), weights_gradient, room,
                     count, list, work.workspace.data(), work.workspace.size());
      });
  description_.set_math_type(backward_weights_->math_type);
  HORO_CUDNN(convolution_backward_filter, handle, &kOne, input_.get(), input, output_.get(),
             output_gradient, description_.get(), backward_weights_->algorithm,
             work.workspace.data(), work.workspace.size(), &kZero, filter_.get(), weights_gradient);
  sum_bias_gradient(work, output_gradient, bias_gradient);
}

// cuDNN cannot sum a gradient of 16-bit values with channels last.
void ConvolutionKernel::sum_bias_gradient(const CudnnWork& work, const void* output_gradient,
                                          void* bias_gradient) const {
  if (!shape_.has_bias) return;
  if (options_.format.layout == ImageLayout::kChannelsFirst)
    HORO_CUDNN(convolution_backward_bias, work.handle(), &kOne, output_.get(), output_gradient,
               &kZero, bias_.get(), bias_gradient);
  else
    device_kernels::visit_float_type(options_.format.type, "Convolution: images", [&](auto zero) {
      sum_channels<decltype(zero)>(work, shape_, output_gradient, bias_gradient);
    });
}

}  // namespace horo::ops::cuda
