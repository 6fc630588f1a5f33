// The older functions of cuDNN for convolutions, and their biases.
#include <cudnn.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/library_call.h"
#include "tests/fakes/cudnn/convolution.h"

namespace horo::fakes::dnn {
namespace {

/// An algorithm in the lists of the heuristic and of the measurement.
struct Algorithm {
  int number;
  cudnnStatus_t status;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
  bool has_large_workspace;

  bool drops_bits() const { return math == CUDNN_TENSOR_OP_MATH; }
  std::size_t workspace_bytes(const Convolution& convolution) const {
    return has_large_workspace ? (convolution.output.bytes() + 255) / 256 * 256 : 0;
  }
};

// Best first. In each list, a caller must pass over some algorithms to get the same bits in every
// run, or to keep all bits of float32 factors.
std::span<const Algorithm> algorithms_of(Direction direction) {
  constexpr auto kOk = CUDNN_STATUS_SUCCESS, kNo = CUDNN_STATUS_NOT_SUPPORTED;
  constexpr auto kSame = CUDNN_DETERMINISTIC, kOther = CUDNN_NON_DETERMINISTIC;
  static constexpr Algorithm kForward[] = {
      {CUDNN_CONVOLUTION_FWD_ALGO_FFT, kNo, kSame, CUDNN_FMA_MATH, false},
      {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, kOk, kSame, CUDNN_TENSOR_OP_MATH, true},
      {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, kOk, kSame, CUDNN_FMA_MATH, true},
      {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, kOk, kSame, CUDNN_FMA_MATH, false}};
  static constexpr Algorithm kBackwardData[] = {
      {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, kOk, kOther, CUDNN_FMA_MATH, false},
      {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, kOk, kSame, CUDNN_TENSOR_OP_MATH, true},
      {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, kOk, kSame, CUDNN_FMA_MATH, false}};
  static constexpr Algorithm kBackwardFilter[] = {
      {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, kOk, kOther, CUDNN_FMA_MATH, false},
      {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, kOk, kSame, CUDNN_TENSOR_OP_MATH, true},
      {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, kOk, kSame, CUDNN_FMA_MATH, true}};
  if (direction == Direction::kForward) return kForward;
  return direction == Direction::kBackwardData ? std::span(kBackwardData)
                                               : std::span(kBackwardFilter);
}

/// Reads the descriptors of a convolution, and checks that they fit together.
Convolution described(const char* call, Direction direction, cudnnTensorDescriptor_t images,
                      cudnnFilterDescriptor_t filter, cudnnConvolutionDescriptor_t convolution,
                      cudnnTensorDescriptor_t output) {
  Convolution c{direction, value_of(call, images), value_of(call, filter).tensor,
                value_of(call, output), value_of(call, convolution).window};
  c.window.size = {c.filter.extents[2], c.filter.extents[3]};
  c.check([call](const std::string& rule) { violation(call, "a convolution", rule); });
  return c;
}

template <typename Performance>
cudnnStatus_t rank(const Convolution& convolution, std::size_t workspace_bytes, int requested,
                   int* returned, Performance* list) {
  *returned = 0;
  for (const Algorithm& one : algorithms_of(convolution.direction)) {
    if (*returned == requested) break;
    Performance& place = list[(*returned)++];
    place = {};
    place.algo = static_cast<decltype(place.algo)>(one.number);
    place.memory = one.workspace_bytes(convolution);
    place.status = one.status == CUDNN_STATUS_SUCCESS && place.memory > workspace_bytes
                       ? CUDNN_STATUS_ALLOC_FAILED
                       : one.status;
    place.determinism = one.determinism;
    place.mathType = one.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename Performance>
cudnnStatus_t rank_by_heuristic(const char* call, cudnnHandle_t handle,
                                const Convolution& convolution, int requested, int* returned,
                                Performance* list) {
  enter(call);
  contexts().get(call, handle);
  return rank(convolution, std::numeric_limits<std::size_t>::max(), requested, returned, list);
}

void add_operands(LibraryCall& call, const Convolution& c, const ConvolutionOperands& operands) {
  call.read("the first tensor", operands.first, c.first().bytes(), size_of(c.first().element()));
  call.read("the second tensor", operands.second, c.second().bytes(),
            size_of(c.second().element()));
  call.write("the result", operands.result, c.result().bytes(), size_of(c.result().element()));
}

// Overwrites the result and the workspace, as a measurement does, and waits for the stream.
template <typename Performance>
cudnnStatus_t measure(const char* name, cudnnHandle_t handle, const Convolution& convolution,
                      const ConvolutionOperands& operands, void* workspace,
                      std::size_t workspace_bytes, int requested, int* returned,
                      Performance* list) {
  require_no_capture(name);
  const cudaStream_t stream = contexts().get(name, handle)->stream;
  LibraryCall call(name, stream);
  add_operands(call, convolution, operands);
  call.use_workspace(workspace, workspace_bytes, workspace_bytes, 16);
  call.submit([result = convolution.result(), to = operands.result] {
    result.store(to, std::vector<float>(result.count(), NAN));
  });
  if (cudaStreamSynchronize(stream) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  return rank(convolution, workspace_bytes, requested, returned, list);
}

/// Returns the algorithm of this number, which must suit the math type of the descriptor.
const Algorithm& chosen(const LibraryCall& call, Direction direction, int number,
                        cudnnMathType_t math) {
  for (const Algorithm& one : algorithms_of(direction)) {
    if (one.number != number || one.status != CUDNN_STATUS_SUCCESS) continue;
    call.require(!one.drops_bits() || math == CUDNN_TENSOR_OP_MATH,
                 "the math type is not that of the algorithm");
    return one;
  }
  call.require(false, fmt::format("algorithm {} does not support the convolution", number));
  std::abort();
}

struct Blend {
  const void *alpha, *beta;
  float factor() const { return *static_cast<const float*>(alpha); }
  float old() const { return *static_cast<const float*>(beta); }
};

cudnnStatus_t run(const char* name, cudnnHandle_t handle, const Convolution& convolution,
                  cudnnConvolutionDescriptor_t descriptor, int algorithm,
                  const ConvolutionOperands& operands, const Blend& blend, void* workspace,
                  std::size_t workspace_bytes) {
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const Algorithm& one =
      chosen(call, convolution.direction, algorithm, value_of(name, descriptor).math);
  add_operands(call, convolution, operands);
  call.use_workspace(workspace, one.workspace_bytes(convolution), workspace_bytes, 16);
  const Precision precision{
      .has_tf32 = one.drops_bits() && convolution.images.type == CUDNN_DATA_FLOAT,
      .is_deterministic = one.determinism == CUDNN_DETERMINISTIC};
  call.submit([convolution, operands, precision, alpha = blend.factor(), beta = blend.old()] {
    compute(convolution, operands, precision, alpha, beta);
  });
  return CUDNN_STATUS_SUCCESS;
}

/// The value of `bias` [1, channels, 1, 1] for each pixel.
std::vector<float> spread(const Tensor& images, const std::vector<float>& bias) {
  std::vector<float> values(images.count());
  const auto plane = static_cast<std::size_t>(images.extents[2] * images.extents[3]);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = bias[i / plane % bias.size()];
  return values;
}

std::vector<float> channel_sums(const Tensor& images, const std::vector<float>& values) {
  std::vector<float> sums(static_cast<std::size_t>(images.extents[1]));
  const auto plane = static_cast<std::size_t>(images.extents[2] * images.extents[3]);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i / plane % sums.size()] += values[i];
  return sums;
}

void require_bias(const LibraryCall& call, const Tensor& bias, const Tensor& images) {
  call.require(bias.type == images.type, "the bias has another type than the images");
  call.require(bias.extents == Extents{1, images.extents[1], 1, 1},
               "the bias does not have one value for each channel");
}

}  // namespace
}  // namespace horo::fakes::dnn

using namespace horo::fakes;       // NOLINT
using namespace horo::fakes::dnn;  // NOLINT

extern "C" {

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle,
                                                     const cudnnTensorDescriptor_t images,
                                                     const cudnnFilterDescriptor_t filter,
                                                     const cudnnConvolutionDescriptor_t convolution,
                                                     const cudnnTensorDescriptor_t output,
                                                     const int requested, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* list) {
  const char* const call = "cudnnGetConvolutionForwardAlgorithm_v7";
  return rank_by_heuristic(
      call, handle, described(call, Direction::kForward, images, filter, convolution, output),
      requested, returned, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filter,
    const cudnnTensorDescriptor_t output, const cudnnConvolutionDescriptor_t convolution,
    const cudnnTensorDescriptor_t images, const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* list) {
  const char* const call = "cudnnGetConvolutionBackwardDataAlgorithm_v7";
  return rank_by_heuristic(
      call, handle, described(call, Direction::kBackwardData, images, filter, convolution, output),
      requested, returned, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images,
    const cudnnTensorDescriptor_t output, const cudnnConvolutionDescriptor_t convolution,
    const cudnnFilterDescriptor_t filter, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* list) {
  const char* const call = "cudnnGetConvolutionBackwardFilterAlgorithm_v7";
  return rank_by_heuristic(
      call, handle,
      described(call, Direction::kBackwardFilter, images, filter, convolution, output), requested,
      returned, list);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const void* x,
    const cudnnFilterDescriptor_t filter, const void* w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t output, void* y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* list, void* workspace,
    size_t workspace_bytes) {
  const char* const call = "cudnnFindConvolutionForwardAlgorithmEx";
  return measure(call, handle,
                 described(call, Direction::kForward, images, filter, convolution, output),
                 {x, w, y}, workspace, workspace_bytes, requested, returned, list);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filter, const void* w,
    const cudnnTensorDescriptor_t output, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t images, void* dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* list, void* workspace,
    size_t workspace_bytes) {
  const char* const call = "cudnnFindConvolutionBackwardDataAlgorithmEx";
  return measure(call, handle,
                 described(call, Direction::kBackwardData, images, filter, convolution, output),
                 {w, dy, dx}, workspace, workspace_bytes, requested, returned, list);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t images, const void* x,
    const cudnnTensorDescriptor_t output, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t filter, void* dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* list, void* workspace,
    size_t workspace_bytes) {
  const char* const call = "cudnnFindConvolutionBackwardFilterAlgorithmEx";
  return measure(call, handle,
                 described(call, Direction::kBackwardFilter, images, filter, convolution, output),
                 {x, dy, dw}, workspace, workspace_bytes, requested, returned, list);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t images, const void* x,
                                      const cudnnFilterDescriptor_t filter, const void* w,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      const cudnnTensorDescriptor_t output, void* y) {
  const char* const call = "cudnnConvolutionForward";
  return run(call, handle,
             described(call, Direction::kForward, images, filter, convolution, output), convolution,
             algorithm, {x, w, y}, {alpha, beta}, workspace, workspace_bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t filter, const void* w,
                                           const cudnnTensorDescriptor_t output, const void* dy,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           const cudnnTensorDescriptor_t images, void* dx) {
  const char* const call = "cudnnConvolutionBackwardData";
  return run(call, handle,
             described(call, Direction::kBackwardData, images, filter, convolution, output),
             convolution, algorithm, {w, dy, dx}, {alpha, beta}, workspace, workspace_bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t images, const void* x,
                                             const cudnnTensorDescriptor_t output, const void* dy,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t workspace_bytes,
                                             const void* beta, const cudnnFilterDescriptor_t filter,
                                             void* dw) {
  const char* const call = "cudnnConvolutionBackwardFilter";
  return run(call, handle,
             described(call, Direction::kBackwardFilter, images, filter, convolution, output),
             convolution, algorithm, {x, dy, dw}, {alpha, beta}, workspace, workspace_bytes);
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t output, const void* dy,
                                           const void* beta, const cudnnTensorDescriptor_t bias,
                                           void* db) {
  const char* const name = "cudnnConvolutionBackwardBias";
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const Tensor images = value_of(name, output), sums = value_of(name, bias);
  require_bias(call, sums, images);
  // As cuDNN 9.19 on an H100.
  if (images.element() != Element::kFloat && images.strides[1] == 1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  call.read("dy", dy, images.bytes(), size_of(images.element()));
  call.write("db", db, sums.bytes(), size_of(sums.element()));
  const Blend blend{alpha, beta};
  call.submit([=, factor = blend.factor(), old = blend.old()] {
    sums.store(db, channel_sums(images, images.load(dy)), factor, old);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                             const cudnnTensorDescriptor_t bias, const void* b, const void* beta,
                             const cudnnTensorDescriptor_t output, void* y) {
  const char* const name = "cudnnAddTensor";
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const Tensor images = value_of(name, output), added = value_of(name, bias);
  require_bias(call, added, images);
  call.read("A", b, added.bytes(), size_of(added.element()));
  call.write("C", y, images.bytes(), size_of(images.element()));
  const Blend blend{alpha, beta};
  call.submit([=, factor = blend.factor(), old = blend.old()] {
    images.store(y, spread(images, added.load(b)), factor, old);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
