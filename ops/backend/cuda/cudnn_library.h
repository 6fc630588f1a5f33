#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "horo/base/source_location.h"
#include "horo/device/stream.h"

namespace horo::ops::cuda {

/// The functions of cuDNN. The library is loaded on first use.
struct CudnnLibrary {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) get_error_string;

  decltype(&cudnnCreateTensorDescriptor) create_tensor_descriptor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor_descriptor;
  decltype(&cudnnSetTensor4dDescriptor) set_tensor_4d_descriptor;
  decltype(&cudnnGetTensor4dDescriptor) get_tensor_4d_descriptor;
  decltype(&cudnnCreateFilterDescriptor) create_filter_descriptor;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter_descriptor;
  decltype(&cudnnSetFilter4dDescriptor) set_filter_4d_descriptor;
  decltype(&cudnnGetFilter4dDescriptor) get_filter_4d_descriptor;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution_descriptor;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution_descriptor;
  decltype(&cudnnSetConvolution2dDescriptor) set_convolution_2d_descriptor;
  decltype(&cudnnSetConvolutionMathType) set_convolution_math_type;
  decltype(&cudnnGetConvolutionMathType) get_convolution_math_type;
  decltype(&cudnnGetConvolution2dForwardOutputDim) get_convolution_2d_forward_output_dim;
  decltype(&cudnnCreatePoolingDescriptor) create_pooling_descriptor;
  decltype(&cudnnDestroyPoolingDescriptor) destroy_pooling_descriptor;
  decltype(&cudnnSetPooling2dDescriptor) set_pooling_2d_descriptor;
  decltype(&cudnnGetPooling2dForwardOutputDim) get_pooling_2d_forward_output_dim;

  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) get_forward_algorithm;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) get_backward_data_algorithm;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) get_backward_filter_algorithm;
  decltype(&cudnnFindConvolutionForwardAlgorithmEx) find_forward_algorithm;
  decltype(&cudnnFindConvolutionBackwardDataAlgorithmEx) find_backward_data_algorithm;
  decltype(&cudnnFindConvolutionBackwardFilterAlgorithmEx) find_backward_filter_algorithm;
  decltype(&cudnnConvolutionForward) convolution_forward;
  decltype(&cudnnConvolutionBackwardData) convolution_backward_data;
  decltype(&cudnnConvolutionBackwardFilter) convolution_backward_filter;
  decltype(&cudnnConvolutionBackwardBias) convolution_backward_bias;
  decltype(&cudnnAddTensor) add_tensor;
  decltype(&cudnnPoolingForward) pooling_forward;
  decltype(&cudnnPoolingBackward) pooling_backward;

  decltype(&cudnnBackendCreateDescriptor) backend_create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) backend_destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) backend_set_attribute;
  decltype(&cudnnBackendGetAttribute) backend_get_attribute;
  decltype(&cudnnBackendFinalize) backend_finalize;
  decltype(&cudnnBackendExecute) backend_execute;
};

/// Thread-safe. Every call throws DeviceError if libcudnn.so.9 cannot be loaded or lacks a
/// function.
const CudnnLibrary& cudnn();

/// Throws DeviceError unless `status` is success. The error has one line with the call, cuDNN's
/// text and the source location, and states if there is no GPU.
void check_cudnn(cudnnStatus_t status, const char* call,
                 SourceLocation where = SourceLocation::current());

/// A cuDNN handle for one thread and its current GPU. Throws DeviceError without a GPU.
class Cudnn {
 public:
  Cudnn();
  /// Returns the handle. Its work is submitted to `stream` from now on.
  cudnnHandle_t on(const device::Stream& stream) const;

 private:
  struct Destroy {
    void operator()(cudnnHandle_t handle) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, Destroy> handle_;
};

/// The stream and the workspace of an operation. The workspace is in GPU memory. Work on other
/// streams must not use it until the operation is complete. It may be empty if the operation needs
/// none.
struct CudnnWork {
  const Cudnn& cudnn;
  device::Stream& stream;
  std::span<std::byte> workspace{};

  cudnnHandle_t handle() const { return cudnn.on(stream); }
};

}  // namespace horo::ops::cuda

/// HORO_CUDNN(function, arguments...): calls cudnn().function and checks the status.
#define HORO_CUDNN(function, ...) \
  ::horo::ops::cuda::check_cudnn(::horo::ops::cuda::cudnn().function(__VA_ARGS__), #function)
