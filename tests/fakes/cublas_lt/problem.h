#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <functional>

#include "tests/fakes/cuda/element.h"

struct cublasLtContext {};

namespace horo::fakes::lt {

/// A column-major matrix.
struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;

  friend bool operator==(const Layout&, const Layout&) = default;
  Element element() const {
    if (type == CUDA_R_16F) return Element::kFloat16;
    return type == CUDA_R_32F ? Element::kFloat : Element::kBFloat16;
  }
  /// From the first byte to the end of the last value.
  std::size_t bytes() const {
    return ((columns - 1) * static_cast<std::size_t>(leading) + rows) * size_of(element());
  }
};

/// What the functions for cublasLtMatmulDesc_t set.
struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* kept = nullptr;
  std::int64_t kept_leading = 0;
  std::int32_t multiprocessors = 0;
};

/// The limits for algorithms. The alignments are those of A, B, C and D.
struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};
};

/// D = epilogue(alpha A B + beta C), with C and D of one layout. A and B may be transposed.
struct Problem {
  Description description;
  Layout a, b, d;

  bool has_bias() const;           ///< the epilogue reads a vector
  bool has_bias_gradient() const;  ///< it writes one
  bool has_kept_bits() const;      ///< it has one bit for each value of D
  bool has_kept_values() const;    ///< it has one value for each value of D
  bool writes_kept() const;
  std::uint64_t inner() const;
  std::size_t bias_bytes() const;
  std::size_t kept_bytes() const;

  /// It is a violation if the parts do not fit together. `require(holds, rule)` reports it.
  void check(const std::function<void(bool, const char*)>& require) const;
  /// Whether the fake has an algorithm. As in cuBLASLt, some epilogues need aligned columns.
  bool is_supported() const;
  /// Equal for problems that share their algorithms.
  std::uint64_t key() const;
};

/// The operands of one run.
struct Operands {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

void compute(const Problem& problem, const Operands& operands);

}  // namespace horo::fakes::lt
