// The functions of cuDNN for handles and descriptors.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/cudnn/objects.h"

namespace horo::fakes::dnn {

Handles<cudnnContext>& contexts() {
  static auto* handles = new Handles<cudnnContext>("handle");
  return *handles;
}

namespace {

template <typename Descriptor>
cudnnStatus_t create(const char* call, Descriptor** descriptor) {
  enter(call);
  *descriptor = descriptors<Descriptor>().add(std::make_shared<Descriptor>());
  return CUDNN_STATUS_SUCCESS;
}

template <typename Descriptor>
cudnnStatus_t destroy(const char* call, Descriptor* descriptor) {
  enter(call);
  descriptors<Descriptor>().remove(call, descriptor);
  return CUDNN_STATUS_SUCCESS;
}

template <typename Descriptor, typename Value>
cudnnStatus_t set(const char* call, Descriptor* descriptor, const Value& value) {
  enter(call);
  descriptors<Descriptor>().get(call, descriptor)->value = value;
  return CUDNN_STATUS_SUCCESS;
}

void require(const char* call, bool holds, const char* rule) {
  if (!holds) violation(call, "a descriptor", rule);
}

Tensor packed(const char* call, cudnnDataType_t type, cudnnTensorFormat_t format,
              const Extents& extents) {
  require(call, *std::ranges::min_element(extents) > 0, "an extent is not positive");
  require(call, format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC,
          "the fake does not support the layout");
  const Tensor tensor = Tensor::packed(type, format, extents);
  require(call, tensor.is_known(), "the fake does not support the type");
  return tensor;
}

void require_window(const char* call, const Window& window) {
  for (std::size_t d = 0; d < 2; ++d)
    require(call, window.padding[d] >= 0 && window.stride[d] > 0 && window.dilation[d] > 0,
            "the padding, stride or dilation is out of range");
}

void copy(const Extents& from, int* n, int* c, int* h, int* w) {
  int* const to[] = {n, c, h, w};
  for (std::size_t i = 0; i < from.size(); ++i) *to[i] = static_cast<int>(from[i]);
}

}  // namespace
}  // namespace horo::fakes::dnn

using namespace horo::fakes;       // NOLINT
using namespace horo::fakes::dnn;  // NOLINT

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  enter("cudnnCreate");
  require_no_capture("cudnnCreate");
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = contexts().add(std::make_shared<cudnnContext>());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  enter("cudnnDestroy");
  require_no_capture("cudnnDestroy");
  contexts().remove("cudnnDestroy", handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  enter("cudnnSetStream");
  (void)checked("cudnnSetStream", stream);
  contexts().get("cudnnSetStream", handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the fake cuDNN"; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create("cudnnCreateTensorDescriptor", descriptor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy("cudnnDestroyTensorDescriptor", descriptor);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create("cudnnCreateFilterDescriptor", descriptor);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return destroy("cudnnDestroyFilterDescriptor", descriptor);
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create("cudnnCreateConvolutionDescriptor", descriptor);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return destroy("cudnnDestroyConvolutionDescriptor", descriptor);
}
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* descriptor) {
  return create("cudnnCreatePoolingDescriptor", descriptor);
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t descriptor) {
  return destroy("cudnnDestroyPoolingDescriptor", descriptor);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  const char* const call = "cudnnSetTensor4dDescriptor";
  return set(call, descriptor, packed(call, type, format, {n, c, h, w}));
}

cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t descriptor,
                                         cudnnDataType_t* type, int* n, int* c, int* h, int* w,
                                         int* by_n, int* by_c, int* by_h, int* by_w) {
  enter("cudnnGetTensor4dDescriptor");
  const Tensor tensor = value_of("cudnnGetTensor4dDescriptor", descriptor);
  *type = tensor.type;
  copy(tensor.extents, n, c, h, w);
  copy(tensor.strides, by_n, by_c, by_h, by_w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const char* const call = "cudnnSetFilter4dDescriptor";
  return set(call, descriptor,
             cudnnFilterStruct::Filter{packed(call, type, format, {k, c, h, w}), format});
}

cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t descriptor,
                                         cudnnDataType_t* type, cudnnTensorFormat_t* format, int* k,
                                         int* c, int* h, int* w) {
  enter("cudnnGetFilter4dDescriptor");
  const auto filter = value_of("cudnnGetFilter4dDescriptor", descriptor);
  *type = filter.tensor.type;
  *format = filter.format;
  copy(filter.tensor.extents, k, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_down,
                                              int pad_right, int down, int right, int dilation_down,
                                              int dilation_right, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const char* const call = "cudnnSetConvolution2dDescriptor";
  const Window window{{}, {pad_down, pad_right}, {down, right}, {dilation_down, dilation_right}};
  require_window(call, window);
  require(call, mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT,
          "the fake supports cross-correlation with sums in float32 only");
  return set(call, descriptor, cudnnConvolutionStruct::Convolution{window});
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t math) {
  const char* const call = "cudnnSetConvolutionMathType";
  auto value = value_of(call, descriptor);
  value.math = math;
  return set(call, descriptor, value);
}

cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t* math) {
  enter("cudnnGetConvolutionMathType");
  *math = value_of("cudnnGetConvolutionMathType", descriptor).math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                    const cudnnTensorDescriptor_t images,
                                                    const cudnnFilterDescriptor_t filter, int* n,
                                                    int* c, int* h, int* w) {
  const char* const call = "cudnnGetConvolution2dForwardOutputDim";
  enter(call);
  const Extents filters = value_of(call, filter).tensor.extents;
  Window window = value_of(call, convolution).window;
  window.size = {filters[2], filters[3]};
  copy(window.output(value_of(call, images).extents, filters[0]), n, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                          cudnnPoolingMode_t mode, cudnnNanPropagation_t nan,
                                          int height, int width, int pad_down, int pad_right,
                                          int down, int right) {
  const char* const call = "cudnnSetPooling2dDescriptor";
  const Window window{{height, width}, {pad_down, pad_right}, {down, right}};
  require_window(call, window);
  require(call, height > pad_down && width > pad_right, "the padding is not less than the window");
  require(call, nan == CUDNN_PROPAGATE_NAN, "the fake supports CUDNN_PROPAGATE_NAN only");
  require(call,
          mode == CUDNN_POOLING_MAX_DETERMINISTIC ||
              mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
          "the fake does not support the mode");
  return set(call, descriptor, cudnnPoolingStruct::Pooling{mode, window});
}

cudnnStatus_t cudnnGetPooling2dForwardOutputDim(const cudnnPoolingDescriptor_t pooling,
                                                const cudnnTensorDescriptor_t images, int* n,
                                                int* c, int* h, int* w) {
  const char* const call = "cudnnGetPooling2dForwardOutputDim";
  enter(call);
  const Extents input = value_of(call, images).extents;
  copy(value_of(call, pooling).window.output(input, input[1]), n, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
