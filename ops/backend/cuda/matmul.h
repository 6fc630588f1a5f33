#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "horo/base/data_type.h"
#include "horo/device/stream.h"
#include "ops/backend/cuda/cublas_lt_descriptors.h"
#include "ops/backend/shapes.h"

namespace horo::ops::cuda {

/// A cuBLASLt handle for the current GPU of the calling thread. One handle serves all streams and
/// threads. Throws DeviceError without a GPU.
class CublasLt {
 public:
  CublasLt();
  cublasLtHandle_t get() const { return handle_.get(); }
  /// How many multiprocessors the GPU has.
  int multiprocessors() const { return multiprocessors_; }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  int multiprocessors_ = 0;
};

/// result [rows, columns] = left [rows, inner] * right [inner, columns]. A transposed factor is
/// stored as [inner, rows] or [columns, inner].
struct MatmulShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t inner = 0;
  bool is_left_transposed = false;
  bool is_right_transposed = false;
};

/// The operation on the result before it is written. GELU is the variant with tanh.
enum class Epilogue {
  kNone,
  kBias,          ///< + bias [columns]
  kBiasRelu,      ///< ReLU(+ bias)
  kBiasGelu,      ///< GELU(+ bias)
  kBiasReluKeep,  ///< ReLU(+ bias); kept gets one bit per value: whether it passed
  kBiasGeluKeep,  ///< GELU(+ bias); the input of GELU is written to kept [rows, columns]
  /// Keeps the values that ReLU passed according to read_kept and sets the others to zero. Also
  /// writes the sums over the columns to bias_gradient [columns].
  kReluBiasGradient,
  /// Multiplies by GELU's derivative at read_kept [rows, columns]. Also writes the same sums.
  kGeluBiasGradient,
  /// Leaves the result unchanged. Also writes the sums over each row of left, the transposed
  /// gradient by the output, to bias_gradient [rows].
  kBiasGradient,
};

/// Linear layers as products of row-major tensors; see InnerProductShape.
MatmulShape linear_forward(const InnerProductShape& shape);          ///< input, weights
MatmulShape linear_backward_input(const InnerProductShape& shape);   ///< output gradient, weights
MatmulShape linear_backward_weight(const InnerProductShape& shape);  ///< output gradient, input

/// The workspace that cuBLASLt recommends for Hopper.
inline constexpr std::size_t kMatmulWorkspaceBytes = std::size_t{32} << 20;

struct MatmulOptions {
  /// The type of all matrices and vectors: kFloat32, kBFloat16 or kFloat16. Sums are always in
  /// float32.
  DataType type = DataType::kFloat32;
  Epilogue epilogue = Epilogue::kNone;
  /// Allows products of float32 matrices to drop 13 bits of each factor, for several times the
  /// speed.
  bool allow_tf32 = false;
  /// The number of multiprocessors for which cuBLASLt chooses the algorithm; see
  /// multiprocessors_beside(). 0: all of the GPU.
  std::int32_t multiprocessors = 0;
};

/// The number of multiprocessors that a product can use while other kernels occupy `occupied` of
/// the GPU's `all`. 0, which stands for all, if none is occupied. Throws InvalidArgument if none
/// is left.
std::int32_t multiprocessors_beside(int occupied, int all);

/// The matrices of a product in GPU memory: row-major, contiguous, aligned to 16 bytes. The
/// epilogue decides which of the last four are used; an unused pointer is null.
struct MatmulOperands {
  const void* left = nullptr;
  const void* right = nullptr;
  void* result = nullptr;
  const void* bias = nullptr;
  void* bias_gradient = nullptr;
  void* kept = nullptr;
  const void* read_kept = nullptr;
};

/// A product of one fixed shape. The first run() or can_run() queries cuBLASLt's heuristic for an
/// algorithm, and later runs use the same one. The answer is the same on all GPUs of one model, so
/// results have the same bits in every run. Used from one thread at a time.
class Matmul {
 public:
  /// Needs no GPU. Throws InvalidArgument for another type, for a dimension of 0, and if the
  /// epilogue keeps values for GELU and `columns` is not a multiple of 8.
  Matmul(const MatmulShape& shape, const MatmulOptions& options = {});

  /// The size of `kept`; 0 if the epilogue has none. The layout of ReLU's bits is private to
  /// cuBLASLt.
  std::size_t kept_bytes() const;

  /// Whether cuBLASLt has an algorithm that needs at most this workspace. run() then uses it.
  bool can_run(const CublasLt& lt, std::size_t workspace_bytes);

  /// Submits the product to `stream`. `workspace` is in GPU memory and at least as large as in the
  /// first run(). Work on other streams must not use it until this is complete. Throws DeviceError
  /// if cuBLASLt has no algorithm that fits.
  void run(const CublasLt& lt, const MatmulOperands& operands, std::span<std::byte> workspace,
           device::Stream& stream);

  const MatmulDescription& description() const { return description_; }
  /// The matrices as cuBLASLt, which is column-major, reads them: "A" is right, "B" is left, and
  /// all are transposed.
  const MatrixLayout& layout_of_a() const { return a_; }
  const MatrixLayout& layout_of_b() const { return b_; }
  const MatrixLayout& layout_of_result() const { return d_; }

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes;
  };
  void point_at(const void* vector, const void* kept);
  std::optional<Algorithm> find(const CublasLt& lt, std::size_t workspace_bytes);

  MatmulShape shape_;
  MatmulOptions options_;
  MatmulDescription description_;
  MatrixLayout a_, b_, d_;
  std::optional<Algorithm> algorithm_;  // since the first run() or can_run()
};

}  // namespace horo::ops::cuda
