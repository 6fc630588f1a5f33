// Each test breaks one rule of cuBLASLt, and expects that the fake ends the process at that call.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace horo::fakes {
namespace {

constexpr std::uint64_t kSize = 8;
constexpr std::size_t kMatrixBytes = kSize * kSize * sizeof(float);
constexpr std::size_t kWorkspaceBytes = std::size_t{1} << 20;

/// A product of two matrices of ones.
struct Product {
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  void *a = nullptr, *b = nullptr, *d = nullptr, *workspace = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};

  explicit Product(std::uint64_t rows = kSize) {
    cublasLtCreate(&handle);
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, rows, rows, static_cast<std::int64_t>(rows));
    cublasLtMatmulPreferenceCreate(&preference);
    const std::uint64_t limit = kWorkspaceBytes;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &limit, sizeof limit);
    for (void** block : {&a, &b, &d}) {
      cudaMalloc(block, kMatrixBytes);
      cudaMemsetAsync(*block, 0, kMatrixBytes, stream);
    }
    cudaMalloc(&workspace, kWorkspaceBytes);
  }
  ~Product() {
    cudaStreamSynchronize(stream);
    for (void* block : {a, b, d, workspace}) cudaFree(block);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(description);
    cudaStreamDestroy(stream);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void choose() {
    int count = 0;
    ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, description, layout, layout, layout, layout,
                                             preference, 1, &choice, &count),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t run(const void* left, std::size_t workspace_bytes) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, description, &one, left, layout, b, layout, &zero, d, layout, d,
                          layout, &choice.algo, workspace, workspace_bytes, stream);
  }
};

struct FakeCublasLtDeathTest : testing::Test {
  FakeCublasLtDeathTest() {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    product.choose();
  }
  Product product;
};

TEST_F(FakeCublasLtDeathTest, WorkspaceMustSuffice) {
  EXPECT_GT(product.choice.workspaceSize, 0u);
  EXPECT_EQ(product.run(product.a, product.choice.workspaceSize), CUBLAS_STATUS_SUCCESS);
  EXPECT_DEATH(product.run(product.a, product.choice.workspaceSize - 1),
               "cublasLtMatmul on stream .*the workspace has 65535 bytes, .* needs 65536");
}

TEST_F(FakeCublasLtDeathTest, AlgorithmMustBeOfTheProduct) {
  EXPECT_DEATH(
      {
        const cublasOperation_t transposed = CUBLAS_OP_T;
        cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &transposed, sizeof transposed);
        product.run(product.a, kWorkspaceBytes);
      },
      "chose the algorithm for another product");
  EXPECT_DEATH(
      {
        product.choice.algo = {};
        product.run(product.a, kWorkspaceBytes);
      },
      "the algorithm is not of the heuristic");
}

TEST_F(FakeCublasLtDeathTest, OperandsMustBeAlignedAndLive) {
  EXPECT_DEATH(product.run(static_cast<float*>(product.a) + 1, kWorkspaceBytes),
               "A is not aligned to 256 bytes");
  EXPECT_DEATH(product.run(nullptr, kWorkspaceBytes), "A is null");
  EXPECT_DEATH(product.run(product.d, kWorkspaceBytes), "D overlaps another operand");
  alignas(256) static float host[kSize * kSize];
  EXPECT_DEATH(product.run(host, kWorkspaceBytes), "A is not in memory of CUDA");
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(product.stream);
        cudaFree(product.b);
        product.run(product.a, kWorkspaceBytes);
      },
      "cublasLtMatmul on stream .*freed by cudaFree");
  EXPECT_DEATH(
      {
        Product large(2 * kSize);
        large.choose();
        large.run(large.a, kWorkspaceBytes);
      },
      "outside of a block of 256 bytes");
}

TEST_F(FakeCublasLtDeathTest, ProductsNeedOrderWithOtherStreams) {
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(product.stream);
        cudaStream_t other = nullptr;
        cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0);
        cudaMemsetAsync(product.workspace, 0, 1, other);
        product.run(product.a, kWorkspaceBytes);
        cudaStreamSynchronize(other);
        cudaStreamSynchronize(product.stream);
      },
      "without an order between them");
}

TEST_F(FakeCublasLtDeathTest, LayoutsMustFit) {
  cublasLtMatrixLayout_t other = nullptr;
  cublasLtMatrixLayoutCreate(&other, CUDA_R_32F, kSize, 4, kSize);
  int count = 0;
  EXPECT_DEATH(cublasLtMatmulAlgoGetHeuristic(product.handle, product.description, other,
                                              product.layout, product.layout, product.layout,
                                              product.preference, 1, &product.choice, &count),
               "op\\(A\\) has other columns than op\\(B\\) rows");
  EXPECT_DEATH(cublasLtMatmulAlgoGetHeuristic(product.handle, product.description, product.layout,
                                              product.layout, other, product.layout,
                                              product.preference, 1, &product.choice, &count),
               "C and D have different layouts");
  EXPECT_DEATH(cublasLtMatrixLayoutCreate(&other, CUDA_R_32F, 4, 4, 3),
               "the leading dimension is less than the rows");
  cublasLtMatrixLayoutDestroy(other);
}

TEST_F(FakeCublasLtDeathTest, AttributesMustHaveTheirSize) {
  const std::int64_t none = 0;
  EXPECT_DEATH(cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_TRANSA,
                                              &none, sizeof none),
               "the value has 8 bytes, and the attribute 4");
  EXPECT_DEATH(
      {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
        cublasLtMatmulDescSetAttribute(product.description, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                       &epilogue, sizeof epilogue);
        product.choose();
      },
      "the leading dimension of the kept data is less than the rows of D");
}

TEST_F(FakeCublasLtDeathTest, HandlesMustExist) {
  EXPECT_DEATH(
      {
        cublasLtMatrixLayoutDestroy(product.layout);
        product.run(product.a, kWorkspaceBytes);
      },
      "cublasLtMatmul on an unknown handle: the layout does not exist");
  EXPECT_DEATH(
      {
        cublasLtDestroy(product.handle);
        product.run(product.a, kWorkspaceBytes);
      },
      "the handle does not exist");
  EXPECT_DEATH(
      {
        cudaStreamSynchronize(product.stream);
        cudaStreamDestroy(product.stream);
        product.run(product.a, kWorkspaceBytes);
      },
      "the stream does not exist");
}

}  // namespace
}  // namespace horo::fakes
