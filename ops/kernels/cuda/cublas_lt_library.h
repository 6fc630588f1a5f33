#pragma once

#include <cublasLt.h>

#include <source_location>

namespace horo::ops::cuda {

/// The functions of cuBLASLt, which is loaded when it is first needed.
struct CublasLtLibrary {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) get_status_name;
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatmulDescGetAttribute) matmul_desc_get_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatrixLayoutGetAttribute) matrix_layout_get_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute;
};

/// Thread-safe. Throws DeviceError, in every call, if libcublasLt.so cannot be loaded or lacks
/// something.
const CublasLtLibrary& cublas_lt();

/// Throws DeviceError, one line with the call, cuBLASLt's text and the place, unless `status` is
/// success. Where there is no GPU the line says so.
void check_cublas_lt(cublasStatus_t status, const char* call,
                     std::source_location where = std::source_location::current());

}  // namespace horo::ops::cuda

/// HORO_CUBLAS_LT(function, arguments...): calls cublas_lt().function and checks the status.
#define HORO_CUBLAS_LT(function, ...)                                                      \
  ::horo::ops::cuda::check_cublas_lt(::horo::ops::cuda::cublas_lt().function(__VA_ARGS__), \
                                     #function)
