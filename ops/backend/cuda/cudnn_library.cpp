#include "ops/backend/cuda/cudnn_library.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/device/loaded_library.h"
#include "ops/backend/cuda/missing_gpu.h"

namespace horo::ops::cuda {
namespace {

CudnnLibrary load() {
  static const std::string file = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  const device::LoadedLibrary library("cuDNN", file.c_str(), HORO_CUDNN_LIBRARY);
  CudnnLibrary dnn{};
  library.find("cudnnCreate", dnn.create);
  library.find("cudnnDestroy", dnn.destroy);
  library.find("cudnnSetStream", dnn.set_stream);
  library.find("cudnnGetErrorString", dnn.get_error_string);
  library.find("cudnnCreateTensorDescriptor", dnn.create_tensor_descriptor);
  library.find("cudnnDestroyTensorDescriptor", dnn.destroy_tensor_descriptor);
  library.find("cudnnSetTensor4dDescriptor", dnn.set_tensor_4d_descriptor);
  library.find("cudnnGetTensor4dDescriptor", dnn.get_tensor_4d_descriptor);
  library.find("cudnnCreateFilterDescriptor", dnn.create_filter_descriptor);
  library.find("cudnnDestroyFilterDescriptor", dnn.destroy_filter_descriptor);
  library.find("cudnnSetFilter4dDescriptor", dnn.set_filter_4d_descriptor);
  library.find("cudnnGetFilter4dDescriptor", dnn.get_filter_4d_descriptor);
  library.find("cudnnCreateConvolutionDescriptor", dnn.create_convolution_descriptor);
  library.find("cudnnDestroyConvolutionDescriptor", dnn.destroy_convolution_descriptor);
  library.find("cudnnSetConvolution2dDescriptor", dnn.set_convolution_2d_descriptor);
  library.find("cudnnSetConvolutionMathType", dnn.set_convolution_math_type);
  library.find("cudnnGetConvolutionMathType", dnn.get_convolution_math_type);
  library.find("cudnnGetConvolution2dForwardOutputDim", dnn.get_convolution_2d_forward_output_dim);
  library.find("cudnnCreatePoolingDescriptor", dnn.create_pooling_descriptor);
  library.find("cudnnDestroyPoolingDescriptor", dnn.destroy_pooling_descriptor);
  library.find("cudnnSetPooling2dDescriptor", dnn.set_pooling_2d_descriptor);
  library.find("cudnnGetPooling2dForwardOutputDim", dnn.get_pooling_2d_forward_output_dim);
  library.find("cudnnGetConvolutionForwardAlgorithm_v7", dnn.get_forward_algorithm);
  library.find("cudnnGetConvolutionBackwardDataAlgorithm_v7", dnn.get_backward_data_algorithm);
  library.find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", dnn.get_backward_filter_algorithm);
  library.find("cudnnFindConvolutionForwardAlgorithmEx", dnn.find_forward_algorithm);
  library.find("cudnnFindConvolutionBackwardDataAlgorithmEx", dnn.find_backward_data_algorithm);
  library.find("cudnnFindConvolutionBackwardFilterAlgorithmEx", dnn.find_backward_filter_algorithm);
  library.find("cudnnConvolutionForward", dnn.convolution_forward);
  library.find("cudnnConvolutionBackwardData", dnn.convolution_backward_data);
  library.find("cudnnConvolutionBackwardFilter", dnn.convolution_backward_filter);
  library.find("cudnnConvolutionBackwardBias", dnn.convolution_backward_bias);
  library.find("cudnnAddTensor", dnn.add_tensor);
  library.find("cudnnPoolingForward", dnn.pooling_forward);
  library.find("cudnnPoolingBackward", dnn.pooling_backward);
  library.find("cudnnBackendCreateDescriptor", dnn.backend_create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", dnn.backend_destroy_descriptor);
  library.find("cudnnBackendSetAttribute", dnn.backend_set_attribute);
  library.find("cudnnBackendGetAttribute", dnn.backend_get_attribute);
  library.find("cudnnBackendFinalize", dnn.backend_finalize);
  library.find("cudnnBackendExecute", dnn.backend_execute);
  return dnn;
}

}  // namespace

// A function-local static: loaded on first use, by one thread. If loading throws, the next call
// tries again and throws the same error.
const CudnnLibrary& cudnn() {
  static const CudnnLibrary library = load();
  return library;
}

void check_cudnn(cudnnStatus_t status, const char* call, SourceLocation where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  if (status == CUDNN_STATUS_NOT_INITIALIZED) throw DeviceError(why_not_initialized("cuDNN", call));
  throw DeviceError(fmt::format("cuDNN's {} failed: {}, at {}:{}", call,
                                cudnn().get_error_string(status), where.file_name(), where.line()));
}

// A handle belongs to the device that is current at its creation.
Cudnn::Cudnn() {
  cudnnHandle_t handle = nullptr;
  HORO_CUDNN(create, &handle);
  handle_.reset(handle);
}

cudnnHandle_t Cudnn::on(const device::Stream& stream) const {
  HORO_CUDNN(set_stream, handle_.get(), static_cast<cudaStream_t>(stream.native()));
  return handle_.get();
}

void Cudnn::Destroy::operator()(cudnnHandle_t handle) const noexcept { cudnn().destroy(handle); }

}  // namespace horo::ops::cuda
