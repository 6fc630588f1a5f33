#include "ops/backend/cuda/cublas_lt_descriptors.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/device/loaded_library.h"
#include "ops/backend/cuda/missing_gpu.h"

namespace horo::ops::cuda {
namespace {

CublasLtLibrary load() {
  static const std::string file = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  const device::LoadedLibrary library("cuBLASLt", file.c_str(), HORO_CUBLAS_LT_LIBRARY);
  CublasLtLibrary lt{};
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtGetStatusName", lt.get_status_name);
  library.find("cublasLtGetStatusString", lt.get_status_string);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.matmul_algo_get_heuristic);
  library.find("cublasLtMatmulDescCreate", lt.matmul_desc_create);
  library.find("cublasLtMatmulDescDestroy", lt.matmul_desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", lt.matmul_desc_set_attribute);
  library.find("cublasLtMatmulDescGetAttribute", lt.matmul_desc_get_attribute);
  library.find("cublasLtMatrixLayoutCreate", lt.matrix_layout_create);
  library.find("cublasLtMatrixLayoutDestroy", lt.matrix_layout_destroy);
  library.find("cublasLtMatrixLayoutGetAttribute", lt.matrix_layout_get_attribute);
  library.find("cublasLtMatmulPreferenceCreate", lt.matmul_preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", lt.matmul_preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.matmul_preference_set_attribute);
  return lt;
}

}  // namespace

// A function-local static: loaded on first use, by one thread. If loading throws, the next call
// tries again and throws the same error.
const CublasLtLibrary& cublas_lt() {
  static const CublasLtLibrary library = load();
  return library;
}

void check_cublas_lt(cublasStatus_t status, const char* call, SourceLocation where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_NOT_INITIALIZED)
    throw DeviceError(why_not_initialized("cuBLASLt", call));
  throw DeviceError(fmt::format(
      "cuBLASLt's {} failed: {} ({}), at {}:{}", call, cublas_lt().get_status_string(status),
      cublas_lt().get_status_name(status), where.file_name(), where.line()));
}

cudaDataType_t cuda_type(DataType type) {
  if (type == DataType::kFloat16) return CUDA_R_16F;
  HORO_CHECK(type == DataType::kFloat32 || type == DataType::kBFloat16,
             fmt::format("the GPU's kernels compute with float32, bfloat16 or float16, not {}",
                         name_of(type)));
  return type == DataType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

MatrixLayout::MatrixLayout(DataType type, std::size_t rows, std::size_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  HORO_CUBLAS_LT(matrix_layout_create, &layout, cuda_type(type), rows, columns,
                 static_cast<std::int64_t>(rows));
  layout_.reset(layout);
}

void MatrixLayout::Destroy::operator()(cublasLtMatrixLayout_t layout) const noexcept {
  cublas_lt().matrix_layout_destroy(layout);
}

MatmulDescription::MatmulDescription(cublasComputeType_t compute) {
  cublasLtMatmulDesc_t description = nullptr;
  HORO_CUBLAS_LT(matmul_desc_create, &description, compute, CUDA_R_32F);
  description_.reset(description);
}

void MatmulDescription::Destroy::operator()(cublasLtMatmulDesc_t description) const noexcept {
  cublas_lt().matmul_desc_destroy(description);
}

MatmulPreference::MatmulPreference(std::size_t workspace_bytes, std::uint32_t alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  HORO_CUBLAS_LT(matmul_preference_create, &preference);
  preference_.reset(preference);
  const std::uint64_t bytes = workspace_bytes;
  HORO_CUBLAS_LT(matmul_preference_set_attribute, preference,
                 CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    HORO_CUBLAS_LT(matmul_preference_set_attribute, preference, which, &alignment,
                   sizeof alignment);
}

void MatmulPreference::Destroy::operator()(cublasLtMatmulPreference_t preference) const noexcept {
  cublas_lt().matmul_preference_destroy(preference);
}

}  // namespace horo::ops::cuda
