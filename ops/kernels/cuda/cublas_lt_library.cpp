#include "ops/kernels/cuda/cublas_lt_library.h"

#include <fmt/format.h>

#include "horo/base/device/loaded_library.h"
#include "horo/base/error.h"
#include "ops/kernels/cuda/missing_gpu.h"

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

const CublasLtLibrary& cublas_lt() {
  static const CublasLtLibrary library = load();
  return library;
}

void check_cublas_lt(cublasStatus_t status, const char* call, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_NOT_INITIALIZED)
    throw DeviceError(why_not_initialized("cuBLASLt", call));
  throw DeviceError(fmt::format(
      "cuBLASLt's {} failed: {} ({}), at {}:{}", call, cublas_lt().get_status_string(status),
      cublas_lt().get_status_name(status), where.file_name(), where.line()));
}

}  // namespace horo::ops::cuda
