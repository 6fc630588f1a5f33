// Convolutions as cuDNN's graph API describes them. Needs the library but no GPU.
#include <gmock/gmock.h>

#include "horo/base/error.h"
#include "ops/backend/cuda/convolution_graph.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops::cuda {
namespace {

using ::testing::ElementsAre;

constexpr ImageFormat kNarrowLast{DataType::kBFloat16, ImageLayout::kChannelsLast};
constexpr ImageFormat kWideFirst{DataType::kFloat32, ImageLayout::kChannelsFirst};
constexpr ConvolutionShape kGraphShape{{2, 8, 9, 7}, 16, {3, 2, 1}};

std::vector<std::int64_t> numbers(const BackendDescriptor& descriptor,
                                  cudnnBackendAttributeName_t name) {
  return descriptor.values<std::int64_t>(name, 8);
}

TEST(ConvolutionGraph, TensorsHaveTheExtentsAndStridesOfTheirLayout) {
  for (const auto direction : {ConvolutionDirection::kForward, ConvolutionDirection::kBackwardData,
                               ConvolutionDirection::kBackwardWeights}) {
    const ConvolutionGraph last({kGraphShape, kNarrowLast, direction}),
        first({kGraphShape, kWideFirst, direction});
    for (const ConvolutionGraph* graph : {&last, &first}) {
      const auto extents = [&](const BackendDescriptor& tensor) {
        return numbers(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
      };
      EXPECT_THAT(extents(graph->images()), ElementsAre(2, 8, 9, 7));
      EXPECT_THAT(extents(graph->filter()), ElementsAre(16, 8, 3, 3));
      EXPECT_THAT(extents(graph->output()), ElementsAre(2, 16, 5, 4));
    }
    const auto strides = [&](const BackendDescriptor& tensor) {
      return numbers(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    };
    EXPECT_THAT(strides(last.images()), ElementsAre(504, 1, 56, 8));
    EXPECT_THAT(strides(last.filter()), ElementsAre(72, 1, 24, 8));
    EXPECT_THAT(strides(last.output()), ElementsAre(320, 1, 64, 16));
    EXPECT_THAT(strides(first.images()), ElementsAre(504, 63, 7, 1));
    EXPECT_THAT(strides(first.filter()), ElementsAre(72, 9, 3, 1));
    EXPECT_THAT(strides(first.output()), ElementsAre(320, 20, 4, 1));
    EXPECT_THAT(last.images().values<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, 1),
                ElementsAre(CUDNN_DATA_BFLOAT16));
    EXPECT_THAT(first.images().values<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, 1),
                ElementsAre(CUDNN_DATA_FLOAT));
    EXPECT_THAT(last.filter().values<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1),
                ElementsAre(ConvolutionGraph::kFilter));
  }
}

TEST(ConvolutionGraph, DescribesTheWindowAndSumsInFloat32) {
  const ConvolutionGraph graph({kGraphShape, kNarrowLast});
  const BackendDescriptor& window = graph.convolution();
  EXPECT_THAT(numbers(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), ElementsAre(1, 1));
  EXPECT_THAT(numbers(window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS), ElementsAre(1, 1));
  EXPECT_THAT(numbers(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), ElementsAre(2, 2));
  EXPECT_THAT(numbers(window, CUDNN_ATTR_CONVOLUTION_DILATIONS), ElementsAre(1, 1));
  EXPECT_THAT(window.values<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1),
              ElementsAre(CUDNN_DATA_FLOAT));
}

TEST(ConvolutionGraph, TheOperationOverwritesItsResult) {
  const ConvolutionGraph forward({kGraphShape, kNarrowLast});
  const auto floats = [&](const ConvolutionGraph& graph, cudnnBackendAttributeName_t name) {
    return graph.operation().values<float>(name, 1);
  };
  EXPECT_THAT(floats(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA), ElementsAre(1));
  EXPECT_THAT(floats(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA), ElementsAre(0));
  const ConvolutionGraph data({kGraphShape, kWideFirst, ConvolutionDirection::kBackwardData});
  EXPECT_THAT(floats(data, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA), ElementsAre(0));
  const ConvolutionGraph weights({kGraphShape, kWideFirst, ConvolutionDirection::kBackwardWeights});
  EXPECT_THAT(floats(weights, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA), ElementsAre(0));
}

TEST(ConvolutionGraph, RefusesUnsupportedTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              ConvolutionGraph({kGraphShape, {.type = DataType::kFloat64}});
            }),
            "the GPU's kernels compute with float32, bfloat16 or float16, not float64");
}

TEST(ConvolutionPlan, RefusesEnginesThatAreNotDeterministicOrNotExact) {
  using Notes = std::vector<cudnnBackendNumericalNote_t>;
  for (const bool is_exact : {false, true}) {
    EXPECT_TRUE(is_acceptable({}, is_exact));
    EXPECT_TRUE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_FFT}, is_exact));
    EXPECT_FALSE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, is_exact));
    EXPECT_FALSE(is_acceptable(
        Notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
        is_exact));
    EXPECT_EQ(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, is_exact), !is_exact);
    EXPECT_EQ(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, is_exact), !is_exact);
  }
}

TEST(ConvolutionPlans, LayersOfTheSameShapeShareAPlan) {
  const ConvolutionGraphOptions options{kGraphShape, kNarrowLast};
  const auto key = ConvolutionPlans::key_of(options);
  const auto changed = [&](auto change) {
    ConvolutionGraphOptions other = options;
    change(other);
    return ConvolutionPlans::key_of(other);
  };
  EXPECT_EQ(changed([](auto& other) { other.shape.has_bias = false; }), key);
  EXPECT_NE(changed([](auto& other) { other.shape.input.batch = 3; }), key);
  EXPECT_NE(changed([](auto& other) { other.shape.out_channels = 8; }), key);
  EXPECT_NE(changed([](auto& other) { other.shape.window.padding = 0; }), key);
  EXPECT_NE(changed([](auto& other) { other.format.type = DataType::kFloat32; }), key);
  EXPECT_NE(changed([](auto& other) { other.format.layout = ImageLayout::kChannelsFirst; }), key);
  EXPECT_NE(changed([](auto& other) { other.direction = ConvolutionDirection::kBackwardData; }),
            key);
  EXPECT_NE(changed([](auto& other) { other.allow_tf32 = true; }), key);
  EXPECT_NE(changed([](auto& other) { other.multiprocessors = 124; }), key);
}

}  // namespace
}  // namespace horo::ops::cuda
