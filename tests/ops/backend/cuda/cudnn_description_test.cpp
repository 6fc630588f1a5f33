// The descriptions of images and windows for cuDNN. Needs the library but no GPU.
#include <gmock/gmock.h>

#include <vector>

#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "ops/backend/cuda/convolution.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/cuda/pooling.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {

static bool operator==(const ImageBatch& a, const ImageBatch& b) {
  return a.batch == b.batch && a.channels == b.channels && a.height == b.height &&
         a.width == b.width;
}

namespace cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ImageFormat kBf16Last{DataType::kBFloat16, ImageLayout::kChannelsLast};
constexpr ImageFormat kF32First{DataType::kFloat32, ImageLayout::kChannelsFirst};

TEST(CudnnDescription, ImagesHaveTheStridesOfTheirLayout) {
  const auto strides_of = [](const TensorDescription& tensor) {
    cudnnDataType_t type{};
    int n = 0, c = 0, h = 0, w = 0;
    std::vector<int> strides(4);
    HORO_CUDNN(get_tensor_4d_descriptor, tensor.get(), &type, &n, &c, &h, &w, &strides[0],
               &strides[1], &strides[2], &strides[3]);
    return strides;
  };
  const ImageBatch images{2, 3, 5, 7};
  const TensorDescription first(images, kF32First), last(images, kBf16Last);
  EXPECT_EQ(strides_of(first), (std::vector<int>{105, 35, 7, 1}));
  EXPECT_EQ(strides_of(last), (std::vector<int>{105, 1, 21, 3}));
  EXPECT_TRUE(first.images() == images && last.images() == images);
  EXPECT_EQ(first.type(), DataType::kFloat32);
  EXPECT_EQ(last.type(), DataType::kBFloat16);
}

TEST(CudnnDescription, ConvolutionOutputsMatchTheShape) {
  for (const ImageFormat& format : {kF32First, kBf16Last})
    for (const Window window : {Window{3, 1, 1}, {1, 2, 0}, {7, 2, 3}, {5, 3, 0}, {2, 1, 1}})
      for (const std::size_t height : {7, 8, 32}) {
        const ConvolutionShape shape{{3, 4, height, 9}, 6, window};
        const ConvolutionKernel convolution(shape, {.format = format});
        EXPECT_TRUE(convolution.description().output_of(convolution.input(),
                                                        convolution.filter()) == shape.output())
            << window.size << " " << height;
        EXPECT_TRUE(convolution.output().images() == shape.output());
      }
}

TEST(CudnnDescription, PoolingOutputsMatchTheShape) {
  for (const Window window : {Window{2, 2, 0}, {3, 2, 1}, {3, 1, 0}, {4, 3, 2}}) {
    const PoolShape shape{{3, 4, 7, 10}, window};
    EXPECT_TRUE(PoolKernel::largest(shape, kBf16Last).output().images() == shape.output())
        << window.size;
  }
  EXPECT_TRUE((PoolKernel::average_of_planes({3, 4, 7, 10}, kF32First).output().images() ==
               ImageBatch{3, 4, 1, 1}));
}

TEST(CudnnDescription, Float32IsExactUnlessTf32IsAllowed) {
  const auto math_type = [](DataType type, bool allow_tf32) {
    return ConvolutionDescription({}, type, allow_tf32).math_type();
  };
  EXPECT_EQ(math_type(DataType::kFloat32, false), CUDNN_FMA_MATH);
  EXPECT_EQ(math_type(DataType::kFloat32, true), CUDNN_DEFAULT_MATH);
  EXPECT_EQ(math_type(DataType::kBFloat16, false), CUDNN_TENSOR_OP_MATH);
}

TEST(CudnnDescription, RefusesUnsupportedTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              TensorDescription({1, 1, 1, 1}, {.type = DataType::kFloat64});
            }),
            "the GPU's kernels compute with float32, bfloat16 or float16, not float64");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              TensorDescription({std::size_t{1} << 40, 1, 1, 1}, {});
            }),
            "1099511627776 exceeds the integers of cuDNN; make the batch smaller");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              ConvolutionKernel({{2, 3, 4, 8}, 6, {5, 1, 0}});
            }),
            "Convolution: [2, 3, 4, 8] to 6 channels with a window of 5, stride 1 and padding 0 "
            "has no output");
}

cudnnConvolutionFwdAlgoPerf_t ranked(cudnnConvolutionFwdAlgo_t algorithm, std::size_t bytes,
                                     cudnnMathType_t math, bool is_deterministic = true,
                                     cudnnStatus_t status = CUDNN_STATUS_SUCCESS) {
  cudnnConvolutionFwdAlgoPerf_t one{};
  one.algo = algorithm;
  one.status = status;
  one.memory = bytes;
  one.determinism = is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
  one.mathType = math;
  return one;
}

TEST(AlgorithmChoice, TakesTheFirstExactDeterministicOne) {
  using Performance = cudnnConvolutionFwdAlgoPerf_t;
  const std::vector<Performance> all{
      ranked(CUDNN_CONVOLUTION_FWD_ALGO_FFT, 1, CUDNN_FMA_MATH, true, CUDNN_STATUS_NOT_SUPPORTED),
      ranked(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, 1, CUDNN_FMA_MATH, false),
      ranked(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, 200, CUDNN_TENSOR_OP_MATH),
      ranked(CUDNN_CONVOLUTION_FWD_ALGO_GEMM, 500, CUDNN_FMA_MATH),
      ranked(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, CUDNN_DEFAULT_MATH)};
  const auto choose = [&](cudnnMathType_t math, std::size_t bytes) {
    return choose_algorithm(std::span<const Performance>(all), math, bytes);
  };
  EXPECT_EQ(choose(CUDNN_FMA_MATH, 500)->algorithm, CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
  EXPECT_EQ(choose(CUDNN_FMA_MATH, 500)->workspace_bytes, 500u);
  EXPECT_EQ(choose(CUDNN_FMA_MATH, 499)->algorithm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  EXPECT_EQ(choose(CUDNN_FMA_MATH, 499)->math_type, CUDNN_FMA_MATH);  // as requested
  EXPECT_EQ(choose(CUDNN_TENSOR_OP_MATH, 500)->algorithm, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
  EXPECT_EQ(choose(CUDNN_TENSOR_OP_MATH, 500)->math_type, CUDNN_TENSOR_OP_MATH);
  EXPECT_FALSE(choose_algorithm(std::span<const Performance>(all).first(2), CUDNN_FMA_MATH, 500));
}

TEST(Cudnn, ReportsAMissingGpuInOneLine) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  EXPECT_THAT(message_of<DeviceError>([] { Cudnn(); }),
              AllOf(HasSubstr("cuDNN needs a GPU with its driver, and this process sees none"),
                    HasSubstr("nvidia-smi"), Not(HasSubstr("\n"))));
}

TEST(Cudnn, ErrorsNameTheCallAndThePlace) {
  EXPECT_NO_THROW(check_cudnn(CUDNN_STATUS_SUCCESS, "add_tensor"));
  EXPECT_THAT(message_of<DeviceError>([] { check_cudnn(CUDNN_STATUS_BAD_PARAM, "add_tensor"); }),
              AllOf(HasSubstr("cuDNN's add_tensor failed: CUDNN_STATUS_BAD_PARAM"),
                    HasSubstr("cudnn_description_test.cpp:"), Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace cuda
}  // namespace horo::ops
