#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "horo/base/data_type.h"
#include "horo/base/device/stream.h"
#include "ops/kernels/cuda/cublas_lt_descriptors.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::cuda {

/// The connection of a process with cuBLASLt on the calling thread's current GPU. One serves all
/// streams and threads. DeviceError where there is no GPU.
class CublasLt {
 public:
  CublasLt();
  cublasLtHandle_t get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
};

/// result [rows, columns] = left [rows, inner] * right [inner, columns]. One that is transposed
/// lies in memory as [inner, rows] or [columns, inner].
struct MatmulShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t inner = 0;
  bool is_left_transposed = false;
  bool is_right_transposed = false;
};

/// What is done to the result before it is written. GELU is the one with tanh.
enum class Epilogue {
  kNone,
  kBias,          ///< + vector [columns]
  kBiasRelu,      ///< ReLU(+ vector)
  kBiasGelu,      ///< GELU(+ vector)
  kBiasReluKeep,  ///< ReLU(+ vector), and which went through is written to kept, a bit for each
  kBiasGeluKeep,  ///< GELU(+ vector), and what went into GELU is written to kept [rows, columns]
  /// Only what went through as kept says, zero elsewhere; and the sums over the columns of that
  /// written to vector [columns].
  kReluBiasGradient,
  /// Times GELU's derivative at kept [rows, columns]; and the same sums.
  kGeluBiasGradient,
  /// The result as it is, and the sums over each row of left (which is the gradient by the output,
  /// transposed) written to vector [rows].
  kBiasGradient,
};

/// Linear layers as products, on row-major tensors: see InnerProductShape.
MatmulShape linear_forward(const InnerProductShape& shape);          ///< input, weights
MatmulShape linear_backward_input(const InnerProductShape& shape);   ///< output gradient, weights
MatmulShape linear_backward_weight(const InnerProductShape& shape);  ///< output gradient, input

/// What cuBLASLt recommends for Hopper.
inline constexpr std::size_t kMatmulWorkspaceBytes = std::size_t{32} << 20;

struct MatmulOptions {
  /// kFloat32 or kBFloat16, of all matrices and vectors; sums are in float32 in any case.
  DataType type = DataType::kFloat32;
  Epilogue epilogue = Epilogue::kNone;
  /// Lets products of float32 matrices drop 13 bits of each factor, for several times the speed.
  bool allow_tf32 = false;
};

/// Where a product's matrices lie in the GPU's memory, row-major and without gaps, aligned to 16
/// bytes. `vector` and `kept` are used as the epilogue says; the others are null.
struct MatmulOperands {
  const void* left = nullptr;
  const void* right = nullptr;
  void* result = nullptr;
  void* vector = nullptr;
  void* kept = nullptr;
};

/// A product of one fixed shape. cuBLASLt's heuristic is asked for an algorithm in the first run()
/// and its answer kept (can_run() asks before): the same on each GPU of a kind, so results have the
/// same bits every time. Used from one thread at a time.
class Matmul {
 public:
  /// Needs no GPU. InvalidArgument for another type, a dimension of 0, or with GELU's kept values
  /// if 8 does not divide the columns.
  Matmul(const MatmulShape& shape, const MatmulOptions& options = {});

  /// Of `kept`, 0 if the epilogue has none. ReLU's bits are cuBLASLt's own matter.
  std::size_t kept_bytes() const;

  /// Whether cuBLASLt has an algorithm that needs no larger workspace; run() uses it then.
  bool can_run(const CublasLt& lt, std::size_t workspace_bytes);

  /// Gives the product to `stream`. `workspace` lies in the GPU's memory, is at least as large as
  /// in the first run(), and is used by no other work of other streams until this is done.
  /// DeviceError if cuBLASLt has no algorithm that needs no more.
  void run(const CublasLt& lt, const MatmulOperands& operands, std::span<std::byte> workspace,
           device::Stream& stream);

  const MatmulDescription& description() const { return description_; }
  /// As cuBLASLt, whose matrices are column-major, is told of them: "A" is right, "B" is left, and
  /// all are transposed.
  const MatrixLayout& layout_of_a() const { return a_; }
  const MatrixLayout& layout_of_b() const { return b_; }
  const MatrixLayout& layout_of_result() const { return d_; }

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
  };
  void point_at(void* vector, void* kept);
  std::optional<Algorithm> find(const CublasLt& lt, std::size_t workspace_bytes);

  MatmulShape shape_;
  MatmulOptions options_;
  MatmulDescription description_;
  MatrixLayout a_, b_, d_;
  std::optional<Algorithm> algorithm_;  // since the first run() or can_run()
};

}  // namespace horo::ops::cuda
