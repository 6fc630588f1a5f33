#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "horo/base/data_type.h"
#include "horo/base/source_location.h"

namespace horo::ops::cuda {

/// The functions of cuBLASLt. The library is loaded on first use.
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

/// Thread-safe. Every call throws DeviceError if libcublasLt.so cannot be loaded or lacks a
/// function.
const CublasLtLibrary& cublas_lt();

/// Throws DeviceError unless `status` is success. The error has one line with the call, cuBLASLt's
/// text and the source location, and states if there is no GPU.
void check_cublas_lt(cublasStatus_t status, const char* call,
                     SourceLocation where = SourceLocation::current());

}  // namespace horo::ops::cuda

/// HORO_CUBLAS_LT(function, arguments...): calls cublas_lt().function and checks the status.
#define HORO_CUBLAS_LT(function, ...)                                                      \
  ::horo::ops::cuda::check_cublas_lt(::horo::ops::cuda::cublas_lt().function(__VA_ARGS__), \
                                     #function)

// Descriptors of cuBLASLt. They are host objects: they need the library, but no GPU.

namespace horo::ops::cuda {

/// Returns the CUDA type for float32 or bfloat16. Throws InvalidArgument for other types.
cudaDataType_t cuda_type(DataType type);

/// A contiguous column-major matrix for cuBLASLt, which is a row-major matrix with `columns` rows.
class MatrixLayout {
 public:
  MatrixLayout(DataType type, std::size_t rows, std::size_t columns);

  cublasLtMatrixLayout_t get() const { return layout_.get(); }
  template <typename T>
  T attribute(cublasLtMatrixLayoutAttribute_t which) const {
    T value{};
    std::size_t written = 0;
    HORO_CUBLAS_LT(matrix_layout_get_attribute, get(), which, &value, sizeof value, &written);
    return value;
  }

 private:
  struct Destroy {
    void operator()(cublasLtMatrixLayout_t layout) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy> layout_;
};

/// The computation: its precision, which matrices are transposed, and the epilogue.
class MatmulDescription {
 public:
  /// float32 sums. `compute`: CUBLAS_COMPUTE_32F, or CUBLAS_COMPUTE_32F_FAST_TF32.
  explicit MatmulDescription(cublasComputeType_t compute);

  cublasLtMatmulDesc_t get() const { return description_.get(); }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) {
    HORO_CUBLAS_LT(matmul_desc_set_attribute, get(), which, &value, sizeof value);
  }
  template <typename T>
  T attribute(cublasLtMatmulDescAttributes_t which) const {
    T value{};
    std::size_t written = 0;
    HORO_CUBLAS_LT(matmul_desc_get_attribute, get(), which, &value, sizeof value, &written);
    return value;
  }

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t description) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy> description_;
};

/// The limits for an algorithm: the size of its workspace and the alignment of the matrices in
/// bytes.
class MatmulPreference {
 public:
  MatmulPreference(std::size_t workspace_bytes, std::uint32_t alignment);
  cublasLtMatmulPreference_t get() const { return preference_.get(); }

 private:
  struct Destroy {
    void operator()(cublasLtMatmulPreference_t preference) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy> preference_;
};

}  // namespace horo::ops::cuda
