// Each test breaks one rule of cuDNN, and expects that the fake ends the process at that call.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horo::fakes {
namespace {

// Images [2, 4, 6, 6], filters [8, 4, 3, 3] and outputs [2, 8, 4, 4] of float32.
constexpr std::array<std::int64_t, 4> kImages{2, 4, 6, 6}, kFilter{8, 4, 3, 3}, kOutput{2, 8, 4, 4};
constexpr std::size_t kBytes = 2048, kWorkspaceBytes = 4096;
constexpr auto kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;

/// A handle with a stream, and memory that is large enough for each of the tensors.
struct Bench {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  void *x = nullptr, *w = nullptr, *y = nullptr, *workspace = nullptr;

  Bench() {
    cudnnCreate(&handle);
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cudnnSetStream(handle, stream);
    for (void** block : {&x, &w, &y}) {
      cudaMalloc(block, kBytes);
      cudaMemsetAsync(*block, 0, kBytes, stream);
    }
    cudaMalloc(&workspace, kWorkspaceBytes);
  }
  ~Bench() {
    cudaStreamSynchronize(stream);
    for (void* block : {x, w, y, workspace}) cudaFree(block);
    cudnnDestroy(handle);
    cudaStreamDestroy(stream);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
};

cudnnTensorDescriptor_t tensor(const std::array<std::int64_t, 4>& extents,
                               cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  cudnnTensorDescriptor_t descriptor = nullptr;
  cudnnCreateTensorDescriptor(&descriptor);
  const auto extent = [&](std::size_t i) { return static_cast<int>(extents[i]); };
  cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, type, extent(0), extent(1), extent(2),
                             extent(3));
  return descriptor;
}

/// A convolution of the older functions.
struct FakeCudnnDeathTest : testing::Test {
  FakeCudnnDeathTest() {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    cudnnCreateFilterDescriptor(&filter);
    cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 8, 4, 3, 3);
    cudnnCreateConvolutionDescriptor(&convolution);
    cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                    CUDNN_DATA_FLOAT);
  }
  ~FakeCudnnDeathTest() override {
    cudnnDestroyTensorDescriptor(images);
    cudnnDestroyTensorDescriptor(output);
    cudnnDestroyFilterDescriptor(filter);
    cudnnDestroyConvolutionDescriptor(convolution);
  }
  cudnnStatus_t run(std::size_t workspace_bytes = kWorkspaceBytes,
                    cudnnConvolutionFwdAlgo_t algorithm = kAlgorithm) const {
    const float one = 1, zero = 0;
    return cudnnConvolutionForward(bench.handle, &one, images, bench.x, filter, bench.w,
                                   convolution, algorithm, bench.workspace, workspace_bytes, &zero,
                                   output, bench.y);
  }
  cudnnStatus_t measure() const {
    cudnnConvolutionFwdAlgoPerf_t best{};
    int count = 0;
    return cudnnFindConvolutionForwardAlgorithmEx(bench.handle, images, bench.x, filter, bench.w,
                                                  convolution, output, bench.y, 1, &count, &best,
                                                  bench.workspace, kWorkspaceBytes);
  }

  Bench bench;
  cudnnTensorDescriptor_t images = tensor(kImages), output = tensor(kOutput);
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
};

TEST_F(FakeCudnnDeathTest, WorkspaceMustSuffice) {
  EXPECT_EQ(run(1024), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH(run(1023), "cudnnConvolutionForward on stream .*workspace has 1023 bytes, .* 1024");
}

TEST_F(FakeCudnnDeathTest, MathTypeMustBeThatOfTheAlgorithm) {
  EXPECT_DEATH(run(kWorkspaceBytes, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
               "the math type is not that of the algorithm");
  EXPECT_DEATH(run(kWorkspaceBytes, CUDNN_CONVOLUTION_FWD_ALGO_FFT),
               "algorithm 4 does not support the convolution");
}

TEST_F(FakeCudnnDeathTest, DescriptorsMustFit) {
  EXPECT_DEATH(
      {
        output = tensor({2, 8, 4, 5});
        run();
      },
      "the output is \\[2, 8, 4, 5\\], and the convolution gives \\[2, 8, 4, 4\\]");
  EXPECT_DEATH(
      {
        images = tensor({2, 3, 6, 6});
        run();
      },
      "the filter has 4 input channels, and the images 3");
  EXPECT_DEATH(
      {
        output = tensor(kOutput, CUDNN_DATA_BFLOAT16);
        run();
      },
      "different types");
}

TEST_F(FakeCudnnDeathTest, HandlesMustExist) {
  EXPECT_DEATH(
      {
        cudnnDestroyTensorDescriptor(images);
        run();
      },
      "the tensor descriptor does not exist");
  EXPECT_DEATH(
      {
        cudnnCreateConvolutionDescriptor(&convolution);
        run();
      },
      "the descriptor was not set");
  EXPECT_DEATH(
      {
        cudnnDestroy(bench.handle);
        run();
      },
      "cudnnConvolutionForward on an unknown handle: the handle does not exist");
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(bench.stream);
        cudaStreamDestroy(bench.stream);
        run();
      },
      "the stream does not exist");
}

TEST_F(FakeCudnnDeathTest, OperandsMustBeLiveAndInOrder) {
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(bench.stream);
        cudaFree(bench.w);
        run();
      },
      "cudnnConvolutionForward on stream .*freed by cudaFree");
  EXPECT_DEATH(
      {
        bench.y = bench.x;
        run();
      },
      "the result overlaps another operand");
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(bench.stream);
        cudaStream_t other = nullptr;
        cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0);
        cudaMemsetAsync(bench.y, 0, kBytes, other);
        run();
        cudaStreamSynchronize(other);
        cudaStreamSynchronize(bench.stream);
      },
      "without an order between them");
}

TEST_F(FakeCudnnDeathTest, CapturesForbidMeasuring) {
  EXPECT_EQ(measure(), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH(
      {
        cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal);
        measure();
      },
      "cudnnFindConvolutionForwardAlgorithmEx on stream .*illegal while the stream is captured");
}

TEST_F(FakeCudnnDeathTest, BiasMustHaveOneValueForEachChannel) {
  const float one = 1;
  EXPECT_DEATH(
      cudnnAddTensor(bench.handle, &one, tensor({1, 7, 1, 1}), bench.w, &one, output, bench.y),
      "cudnnAddTensor on stream .*one value for each channel");
}

TEST(FakeCudnn, SumsNoBiasGradientOfBfloat16WithChannelsLast) {
  Bench bench;
  const auto bias_gradient = [&](cudnnTensorFormat_t format) {
    cudnnTensorDescriptor_t images = nullptr;
    cudnnCreateTensorDescriptor(&images);
    cudnnSetTensor4dDescriptor(images, format, CUDNN_DATA_BFLOAT16, 2, 8, 4, 4);
    const float one = 1, zero = 0;
    return cudnnConvolutionBackwardBias(bench.handle, &one, images, bench.y, &zero,
                                        tensor({1, 8, 1, 1}, CUDNN_DATA_BFLOAT16), bench.w);
  };
  EXPECT_EQ(bias_gradient(CUDNN_TENSOR_NHWC), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(bias_gradient(CUDNN_TENSOR_NCHW), CUDNN_STATUS_SUCCESS);
}

/// A descriptor of the graph API.
struct Graph {
  explicit Graph(cudnnBackendDescriptorType_t type) {
    cudnnBackendCreateDescriptor(type, &descriptor);
  }
  template <typename T>
  Graph& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
             const std::vector<T>& values) {
    cudnnBackendSetAttribute(descriptor, name, type, static_cast<std::int64_t>(values.size()),
                             values.data());
    return *this;
  }
  Graph& set(cudnnBackendAttributeName_t name, const Graph& other) {
    return set<cudnnBackendDescriptor_t>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {other.descriptor});
  }
  Graph& finalize() {
    cudnnBackendFinalize(descriptor);
    return *this;
  }
  void destroy() const { cudnnBackendDestroyDescriptor(descriptor); }

  cudnnBackendDescriptor_t descriptor = nullptr;
};

Graph graph_tensor(std::int64_t id, const std::array<std::int64_t, 4>& extents) {
  const auto [n, c, h, w] = extents;
  Graph result(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id})
      .set<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT})
      .set<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16})
      .set<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, {n, c, h, w})
      .set<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, {c * h * w, h * w, w, 1})
      .finalize();
  return result;
}

Graph graph_convolution() {
  Graph result(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {2})
      .set<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                            {CUDNN_DATA_FLOAT})
      .set<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                                   {CUDNN_CROSS_CORRELATION});
  for (const auto name :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    result.set<std::int64_t>(name, CUDNN_TYPE_INT64, {0, 0});
  for (const auto name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS})
    result.set<std::int64_t>(name, CUDNN_TYPE_INT64, {1, 1});
  return result.finalize();
}

/// A forward convolution, which is not finalized. It does not destroy its descriptors.
Graph operation(const Graph& images, const Graph& filter, const Graph& output) {
  Graph result(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  result.set<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, {1})
      .set<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, {0})
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, graph_convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, images)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, output);
  return result;
}

// Deprecated in cuDNN 9.19; earlier versions require it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

/// A plan, not yet finalized, of the last engine of the heuristic, which has a plan.
struct Plan {
  explicit Plan(cudnnHandle_t handle) {
    Graph graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle})
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
             operation(graph_tensor(1, kImages), graph_tensor(2, kFilter), graph_tensor(3, kOutput))
                 .finalize())
        .finalize();
    Graph heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                     {CUDNN_HEUR_MODE_A})
        .finalize();
    std::vector<Graph> engines;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int i = 0; i < 5; ++i)
      handles.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).descriptor);
    std::int64_t count = 0;
    cudnnBackendGetAttribute(heuristic.descriptor, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 5, &count, handles.data());
    EXPECT_EQ(count, 5);
    plan.set<cudnnHandle_t>(kPlanHandle, CUDNN_TYPE_HANDLE, {handle})
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines.back());
  }
  Graph plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
};

Graph pack(const std::vector<void*>& pointers, void* workspace,
           const std::vector<std::int64_t>& ids = {1, 2, 3}) {
  Graph result(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  result.set<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
      .set<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)
      .set<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace})
      .finalize();
  return result;
}

struct FakeCudnnGraphDeathTest : testing::Test {
  FakeCudnnGraphDeathTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  cudnnStatus_t run(const Graph& plan, const Graph& call) const {
    return cudnnBackendExecute(bench.handle, plan.descriptor, call.descriptor);
  }
  std::byte* at(void* block, std::size_t offset) const {
    return static_cast<std::byte*>(block) + offset;
  }
  Bench bench;
};

TEST_F(FakeCudnnGraphDeathTest, AttributesMustHaveTheirTypeAndCount) {
  Graph own(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_DEATH(own.set<float>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, {1}),
               "cudnnBackendSetAttribute on .* has another type");
  EXPECT_DEATH(own.set<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, {1, 1}),
               "2 values are given, and the attribute has 4");
  EXPECT_DEATH(own.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {2}),
               "is not known to the fake");
  own.destroy();
}

TEST_F(FakeCudnnGraphDeathTest, FinalizedDescriptorsMustBeComplete) {
  EXPECT_DEATH(Graph(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalize(),
               "cudnnBackendFinalize on .*attribute .* is missing");
  EXPECT_DEATH(graph_tensor(1, kImages).finalize(), "the descriptor is finalized");
  EXPECT_DEATH(operation(graph_tensor(1, kImages), Graph(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
                         graph_tensor(3, kOutput)),
               "the descriptor is not finalized");
}

TEST_F(FakeCudnnGraphDeathTest, OperationsMustFit) {
  EXPECT_DEATH(
      operation(graph_tensor(1, kImages), graph_tensor(2, kFilter), graph_tensor(3, kImages))
          .finalize(),
      "the output is \\[2, 4, 6, 6\\], and the convolution gives \\[2, 8, 4, 4\\]");
  EXPECT_DEATH(
      operation(graph_tensor(1, kImages), graph_tensor(1, kFilter), graph_tensor(3, kOutput))
          .finalize(),
      "two tensors have the same identifier");
  EXPECT_DEATH(
      {
        const Graph images = graph_tensor(1, kImages);
        Graph own = operation(images, graph_tensor(2, kFilter), graph_tensor(3, kOutput));
        images.destroy();
        own.finalize();
      },
      "cudnnBackendFinalize on an unknown handle: the backend descriptor does not exist");
}

TEST_F(FakeCudnnGraphDeathTest, PlansMustBeFinalizedAndLive) {
  const Graph call = pack({bench.x, bench.w, bench.y}, bench.workspace);
  Plan own(bench.handle);
  EXPECT_DEATH(run(own.plan, call), "cudnnBackendExecute on .* is not finalized");
  own.plan.finalize();
  EXPECT_EQ(run(own.plan, call), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH(
      {
        own.plan.destroy();
        run(own.plan, call);
      },
      "the backend descriptor does not exist");
}

TEST_F(FakeCudnnGraphDeathTest, CallsMustHaveTheTensorsOfTheirPlan) {
  Plan own(bench.handle);
  own.plan.finalize();
  EXPECT_DEATH(run(own.plan, pack({bench.x, bench.w, bench.y}, nullptr)), "the workspace is null");
  EXPECT_DEATH(run(own.plan, pack({bench.x, bench.w, bench.y}, at(bench.workspace, 4096 - 128))),
               "outside of a block of 4096 bytes");
  EXPECT_DEATH(run(own.plan, pack({at(bench.x, 8), bench.w, bench.y}, bench.workspace)),
               "a tensor is not aligned to 16 bytes");
  EXPECT_DEATH(run(own.plan, pack({at(bench.x, 1024), bench.w, bench.y}, bench.workspace)),
               "outside of a block of 2048 bytes");
  EXPECT_DEATH(run(own.plan, pack({bench.x, bench.w, bench.y}, bench.workspace, {1, 2, 4})),
               "the pack lacks the identifier of a tensor");
}

}  // namespace
}  // namespace horo::fakes
