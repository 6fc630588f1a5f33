#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "horo/base/data_type.h"
#include "ops/kernels/cuda/cublas_lt_library.h"

// cuBLASLt's descriptions, which live on the host: they need the library, but no GPU.

namespace horo::ops::cuda {

/// float32 or bfloat16 as CUDA calls it; InvalidArgument for others.
cudaDataType_t cuda_type(DataType type);

/// A column-major matrix without gaps, as cuBLASLt sees it: a row-major one of `columns` rows.
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

/// What is computed: the precision, which matrices are transposed, what is done to the result.
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

/// What an algorithm may use: so much workspace, and matrices aligned to so many bytes.
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
