// The descriptions of a product for cuBLASLt. Needs the library but no GPU.
#include <gmock/gmock.h>

#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "ops/backend/cuda/matmul.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Extents {
  std::uint64_t rows, columns;
  std::int64_t leading;
  friend bool operator==(const Extents&, const Extents&) = default;
};

Extents extents_of(const MatrixLayout& layout) {
  return {layout.attribute<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS),
          layout.attribute<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_COLS),
          layout.attribute<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD)};
}

cublasOperation_t operation_of(const Matmul& matmul, cublasLtMatmulDescAttributes_t which) {
  return matmul.description().attribute<cublasOperation_t>(which);
}

const InnerProductShape kLinear{.batch = 5, .in_features = 16, .out_features = 24};

TEST(MatmulDescription, ForwardOfALinearLayer) {
  const Matmul matmul(linear_forward(kLinear), {.epilogue = Epilogue::kBiasGelu});
  EXPECT_EQ(extents_of(matmul.layout_of_a()), (Extents{16, 24, 16}));  // weights [24, 16]
  EXPECT_EQ(extents_of(matmul.layout_of_b()), (Extents{16, 5, 16}));   // input [5, 16]
  EXPECT_EQ(extents_of(matmul.layout_of_result()), (Extents{24, 5, 24}));
  EXPECT_EQ(operation_of(matmul, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
  EXPECT_EQ(operation_of(matmul, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(matmul.description().attribute<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE),
            CUBLASLT_EPILOGUE_GELU_BIAS);
}

TEST(MatmulDescription, GradientsOfALinearLayer) {
  const Matmul by_input(linear_backward_input(kLinear), {.epilogue = Epilogue::kGeluBiasGradient});
  EXPECT_EQ(extents_of(by_input.layout_of_a()), (Extents{16, 24, 16}));  // weights [24, 16]
  EXPECT_EQ(extents_of(by_input.layout_of_b()), (Extents{24, 5, 24}));   // output gradient [5, 24]
  EXPECT_EQ(extents_of(by_input.layout_of_result()), (Extents{16, 5, 16}));
  EXPECT_EQ(operation_of(by_input, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_N);
  EXPECT_EQ(operation_of(by_input, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(by_input.description().attribute<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD),
            16);
  const Matmul by_weight(linear_backward_weight(kLinear), {.epilogue = Epilogue::kBiasGradient});
  EXPECT_EQ(extents_of(by_weight.layout_of_a()), (Extents{16, 5, 16}));  // input [5, 16]
  EXPECT_EQ(extents_of(by_weight.layout_of_b()), (Extents{24, 5, 24}));  // output gradient [5, 24]
  EXPECT_EQ(extents_of(by_weight.layout_of_result()), (Extents{16, 24, 16}));
  EXPECT_EQ(operation_of(by_weight, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_N);
  EXPECT_EQ(operation_of(by_weight, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_T);
  EXPECT_EQ(by_weight.description().attribute<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE),
            CUBLASLT_EPILOGUE_BGRADB);
}

TEST(MatmulDescription, StoresOneReluBitPerValueInRowsOf128) {
  const auto stride_of = [](const Matmul& matmul) {
    return matmul.description().attribute<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  };
  for (const auto& [columns, bits] : {std::pair{1, 128}, {128, 128}, {129, 256}, {1000, 1024}}) {
    const MatmulShape shape{5, static_cast<std::size_t>(columns), 3};
    for (const auto& [epilogue, native] :
         {std::pair{Epilogue::kBiasReluKeep, CUBLASLT_EPILOGUE_RELU_AUX_BIAS},
          {Epilogue::kReluBiasGradient, CUBLASLT_EPILOGUE_DRELU_BGRAD}}) {
      const Matmul matmul(shape, {.type = DataType::kBFloat16, .epilogue = epilogue});
      EXPECT_EQ(matmul.description().attribute<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE),
                native);
      EXPECT_EQ(stride_of(matmul), bits);
      EXPECT_EQ(matmul.kept_bytes(), static_cast<std::size_t>(5 * bits / 8));
    }
  }
  const Matmul gelu({5, 24, 3},
                    {.type = DataType::kBFloat16, .epilogue = Epilogue::kGeluBiasGradient});
  EXPECT_EQ(gelu.description().attribute<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE),
            CUBLASLT_EPILOGUE_DGELU_BGRAD);
  EXPECT_EQ(stride_of(gelu), 24);
  EXPECT_EQ(gelu.kept_bytes(), 5u * 24 * 2);
  EXPECT_EQ(Matmul({5, 24, 3}, {.epilogue = Epilogue::kBiasGelu}).kept_bytes(), 0u);
}

TEST(MatmulDescription, SumsInFloat32AndUsesTf32OnlyIfAllowed) {
  const auto compute = [](const MatmulOptions& options) {
    return Matmul({2, 3, 4}, options)
        .description()
        .attribute<cublasComputeType_t>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  };
  EXPECT_EQ(compute({}), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(compute({.allow_tf32 = true}), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(compute({.type = DataType::kBFloat16, .allow_tf32 = true}), CUBLAS_COMPUTE_32F);
  const Matmul matmul({2, 3, 4}, {.type = DataType::kBFloat16});
  for (const auto* layout :
       {&matmul.layout_of_a(), &matmul.layout_of_b(), &matmul.layout_of_result()})
    EXPECT_EQ(layout->attribute<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE),
              static_cast<std::uint32_t>(CUDA_R_16BF));
}

TEST(MatmulDescription, TargetsTheMultiprocessorsThatOtherKernelsLeave) {
  const auto target = [](const MatmulOptions& options) {
    return Matmul(linear_backward_weight(kLinear), options)
        .description()
        .attribute<std::int32_t>(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
  };
  EXPECT_EQ(target({}), 0);
  EXPECT_EQ(target({.multiprocessors = multiprocessors_beside(0, 132)}), 0);
  EXPECT_EQ(target({.multiprocessors = multiprocessors_beside(8, 132)}), 124);
  EXPECT_EQ(target({.multiprocessors = multiprocessors_beside(131, 132)}), 1);
  for (const int occupied : {132, 200})
    EXPECT_THAT(message_of<InvalidArgument>([&] { multiprocessors_beside(occupied, 132); }),
                HasSubstr("the GPU has 132, and products need at least 1"));
}

TEST(MatmulDescription, RefusesUnsupportedTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Matmul({2, 0, 4});
            }),
            "Matmul: [2, 4] x [4, 0] of float32; each dimension must be at least 1");
  EXPECT_EQ(
      message_of<InvalidArgument>([] {
        Matmul({2, 12, 4}, {.epilogue = Epilogue::kBiasGeluKeep});
      }),
      "Matmul: [2, 4] x [4, 12] of float32 with values kept for GELU's gradient; the number of "
      "columns must be a multiple of 8");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              Matmul({2, 3, 4}, {.type = DataType::kInt32});
            }),
            "the GPU's kernels compute with float32, bfloat16 or float16, not int32");
}

TEST(CublasLt, ReportsAMissingGpuInOneLine) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  EXPECT_THAT(message_of<DeviceError>([] { CublasLt(); }),
              AllOf(HasSubstr("cuBLASLt needs a GPU with its driver, and this process sees none"),
                    HasSubstr("nvidia-smi"), Not(HasSubstr("\n"))));
}

TEST(CublasLt, ErrorsNameTheCallAndThePlace) {
  EXPECT_NO_THROW(check_cublas_lt(CUBLAS_STATUS_SUCCESS, "matmul"));
  EXPECT_THAT(
      message_of<DeviceError>([] { check_cublas_lt(CUBLAS_STATUS_INVALID_VALUE, "matmul"); }),
      AllOf(HasSubstr("cuBLASLt's matmul failed"), HasSubstr("CUBLAS_STATUS_INVALID_VALUE"),
            HasSubstr("matmul_description_test.cpp:"), Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace horo::ops::cuda
