#include "ops/backend/cuda/cudnn_descriptors.h"

#include <fmt/format.h>

#include <limits>

#include "horo/base/error.h"
#include "ops/backend/cuda/cudnn_library.h"

namespace horo::ops::cuda {
namespace {

int to_int(std::size_t extent) {
  HORO_CHECK(extent <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
             fmt::format("{} exceeds the integers of cuDNN; make the batch smaller", extent));
  return static_cast<int>(extent);
}

cudnnTensorFormat_t native(ImageLayout layout) {
  return layout == ImageLayout::kChannelsLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

ImageBatch images_of(int batch, int channels, int height, int width) {
  return {static_cast<std::size_t>(batch), static_cast<std::size_t>(channels),
          static_cast<std::size_t>(height), static_cast<std::size_t>(width)};
}

}  // namespace

cudnnDataType_t cudnn_type(DataType type) {
  if (type == DataType::kFloat16) return CUDNN_DATA_HALF;
  HORO_CHECK(type == DataType::kFloat32 || type == DataType::kBFloat16,
             fmt::format("the GPU's kernels compute with float32, bfloat16 or float16, not {}",
                         name_of(type)));
  return type == DataType::kFloat32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

TensorDescription::TensorDescription() {
  cudnnTensorDescriptor_t descriptor = nullptr;
  HORO_CUDNN(create_tensor_descriptor, &descriptor);
  descriptor_.reset(descriptor);
}

TensorDescription::TensorDescription(const ImageBatch& images, const ImageFormat& format)
    : TensorDescription() {
  HORO_CUDNN(set_tensor_4d_descriptor, get(), native(format.layout), cudnn_type(format.type),
             to_int(images.batch), to_int(images.channels), to_int(images.height),
             to_int(images.width));
}

TensorDescription TensorDescription::per_channel(std::size_t channels, const ImageFormat& format) {
  return {{1, channels, 1, 1}, format};
}

ImageBatch TensorDescription::images() const {
  cudnnDataType_t type{};
  int n = 0, c = 0, h = 0, w = 0, by_n = 0, by_c = 0, by_h = 0, by_w = 0;
  HORO_CUDNN(get_tensor_4d_descriptor, get(), &type, &n, &c, &h, &w, &by_n, &by_c, &by_h, &by_w);
  return images_of(n, c, h, w);
}

DataType TensorDescription::type() const {
  cudnnDataType_t type{};
  int n = 0, c = 0, h = 0, w = 0, by_n = 0, by_c = 0, by_h = 0, by_w = 0;
  HORO_CUDNN(get_tensor_4d_descriptor, get(), &type, &n, &c, &h, &w, &by_n, &by_c, &by_h, &by_w);
  if (type == CUDNN_DATA_HALF) return DataType::kFloat16;
  return type == CUDNN_DATA_FLOAT ? DataType::kFloat32 : DataType::kBFloat16;
}

void TensorDescription::Destroy::operator()(cudnnTensorDescriptor_t descriptor) const noexcept {
  cudnn().destroy_tensor_descriptor(descriptor);
}

FilterDescription::FilterDescription(const ConvolutionShape& shape, const ImageFormat& format) {
  cudnnFilterDescriptor_t descriptor = nullptr;
  HORO_CUDNN(create_filter_descriptor, &descriptor);
  descriptor_.reset(descriptor);
  const int side = to_int(shape.window.size);
  HORO_CUDNN(set_filter_4d_descriptor, descriptor, cudnn_type(format.type), native(format.layout),
             to_int(shape.out_channels), to_int(shape.input.channels), side, side);
}

void FilterDescription::Destroy::operator()(cudnnFilterDescriptor_t descriptor) const noexcept {
  cudnn().destroy_filter_descriptor(descriptor);
}

// CUDNN_FMA_MATH computes float32 in full precision. CUDNN_DEFAULT_MATH would allow TF32.
ConvolutionDescription::ConvolutionDescription(const Window& window, DataType type,
                                               bool allow_tf32) {
  cudnnConvolutionDescriptor_t descriptor = nullptr;
  HORO_CUDNN(create_convolution_descriptor, &descriptor);
  descriptor_.reset(descriptor);
  const int padding = to_int(window.padding), stride = to_int(window.stride);
  HORO_CUDNN(set_convolution_2d_descriptor, descriptor, padding, padding, stride, stride, 1, 1,
             CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  set_math_type(type != DataType::kFloat32 ? CUDNN_TENSOR_OP_MATH
                : allow_tf32               ? CUDNN_DEFAULT_MATH
                                           : CUDNN_FMA_MATH);
}

void ConvolutionDescription::set_math_type(cudnnMathType_t type) {
  HORO_CUDNN(set_convolution_math_type, get(), type);
}

cudnnMathType_t ConvolutionDescription::math_type() const {
  cudnnMathType_t type{};
  HORO_CUDNN(get_convolution_math_type, get(), &type);
  return type;
}

ImageBatch ConvolutionDescription::output_of(const TensorDescription& input,
                                             const FilterDescription& filter) const {
  int n = 0, c = 0, h = 0, w = 0;
  HORO_CUDNN(get_convolution_2d_forward_output_dim, get(), input.get(), filter.get(), &n, &c, &h,
             &w);
  return images_of(n, c, h, w);
}

void ConvolutionDescription::Destroy::operator()(
    cudnnConvolutionDescriptor_t descriptor) const noexcept {
  cudnn().destroy_convolution_descriptor(descriptor);
}

// The deterministic mode chooses the same pixel among equal ones in every run, so gradients have
// the same bits.
PoolingDescription PoolingDescription::largest(const Window& window) {
  const int side = to_int(window.size), stride = to_int(window.stride);
  return {CUDNN_POOLING_MAX_DETERMINISTIC, side, side, to_int(window.padding), stride, stride};
}

PoolingDescription PoolingDescription::average(const Window& window) {
  const int side = to_int(window.size), stride = to_int(window.stride);
  return {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
          side,
          side,
          to_int(window.padding),
          stride,
          stride};
}

PoolingDescription PoolingDescription::average_of_plane(std::size_t height, std::size_t width) {
  const int down = to_int(height), right = to_int(width);
  return {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, down, right, 0, down, right};
}

PoolingDescription::PoolingDescription(cudnnPoolingMode_t mode, int height, int width, int padding,
                                       int stride_down, int stride_right) {
  cudnnPoolingDescriptor_t descriptor = nullptr;
  HORO_CUDNN(create_pooling_descriptor, &descriptor);
  descriptor_.reset(descriptor);
  HORO_CUDNN(set_pooling_2d_descriptor, descriptor, mode, CUDNN_PROPAGATE_NAN, height, width,
             padding, padding, stride_down, stride_right);
}

ImageBatch PoolingDescription::output_of(const TensorDescription& input) const {
  int n = 0, c = 0, h = 0, w = 0;
  HORO_CUDNN(get_pooling_2d_forward_output_dim, get(), input.get(), &n, &c, &h, &w);
  return images_of(n, c, h, w);
}

void PoolingDescription::Destroy::operator()(cudnnPoolingDescriptor_t descriptor) const noexcept {
  cudnn().destroy_pooling_descriptor(descriptor);
}

}  // namespace horo::ops::cuda
