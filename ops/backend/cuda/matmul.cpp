#include "ops/backend/cuda/matmul.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "horo/base/error.h"
#include "horo/device/cuda/cuda_check.h"

namespace horo::ops::cuda {
namespace {

constexpr std::uint32_t kAlignment = 16;

bool has_kept_bits(Epilogue epilogue) {
  return epilogue == Epilogue::kBiasReluKeep || epilogue == Epilogue::kReluBiasGradient;
}

bool has_kept_values(Epilogue epilogue) {
  return epilogue == Epilogue::kBiasGeluKeep || epilogue == Epilogue::kGeluBiasGradient;
}

bool has_kept(Epilogue epilogue) { return has_kept_bits(epilogue) || has_kept_values(epilogue); }

bool is_backward(Epilogue epilogue) {
  return epilogue == Epilogue::kReluBiasGradient || epilogue == Epilogue::kGeluBiasGradient ||
         epilogue == Epilogue::kBiasGradient;
}

bool fits(const MatmulOperands& operands, Epilogue epilogue) {
  const bool has_bias = epilogue != Epilogue::kNone, is_gradient = is_backward(epilogue);
  return (operands.bias != nullptr) == (has_bias && !is_gradient) &&
         (operands.bias_gradient != nullptr) == is_gradient &&
         (operands.kept != nullptr) == (has_kept(epilogue) && !is_gradient) &&
         (operands.read_kept != nullptr) == (has_kept(epilogue) && is_gradient);
}

cublasLtEpilogue_t native(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::kBiasReluKeep:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::kBiasGeluKeep:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kReluBiasGradient:
      return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    case Epilogue::kGeluBiasGradient:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;  // left is cuBLASLt's B
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

std::string describe(const MatmulShape& shape, DataType type) {
  return fmt::format("[{}, {}] x [{}, {}] of {}", shape.rows, shape.inner, shape.inner,
                     shape.columns, name_of(type));
}

const MatmulShape& checked(const MatmulShape& shape, const MatmulOptions& options) {
  HORO_CHECK(
      shape.rows > 0 && shape.columns > 0 && shape.inner > 0,
      fmt::format("Matmul: {}; each dimension must be at least 1", describe(shape, options.type)));
  HORO_CHECK(!has_kept_values(options.epilogue) || shape.columns % 8 == 0,
             fmt::format("Matmul: {} with values kept for GELU's gradient; the number of columns "
                         "must be a multiple of 8",
                         describe(shape, options.type)));
  return shape;
}

/// The distance between the kept data of two rows: bits, rounded up to a multiple of 128, or
/// values.
std::size_t kept_stride(const MatmulShape& shape, Epilogue epilogue) {
  return has_kept_bits(epilogue) ? (shape.columns + 127) / 128 * 128 : shape.columns;
}

cublasComputeType_t compute_type(const MatmulOptions& options) {
  const bool is_tf32 = options.allow_tf32 && options.type == DataType::kFloat32;
  return is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// Describes a row-major matrix [rows, columns], or [columns, rows] if it is transposed in memory,
/// as a column-major matrix.
MatrixLayout layout_of(DataType type, std::size_t rows, std::size_t columns, bool is_transposed) {
  return is_transposed ? MatrixLayout(type, rows, columns) : MatrixLayout(type, columns, rows);
}

cublasOperation_t operation(bool is_transposed) {
  return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

std::int32_t multiprocessors_beside(int occupied, int all) {
  HORO_CHECK(occupied >= 0 && occupied < all,
             fmt::format("{} multiprocessors are reserved for other kernels; the GPU has {}, and "
                         "products need at least 1",
                         occupied, all));
  return occupied == 0 ? 0 : all - occupied;
}

CublasLt::CublasLt() {
  cublasLtHandle_t handle = nullptr;
  HORO_CUBLAS_LT(create, &handle);
  handle_.reset(handle);
  int gpu = 0;
  HORO_CUDA(cudaGetDevice(&gpu));
  HORO_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu));
}

void CublasLt::Destroy::operator()(cublasLtHandle_t handle) const noexcept {
  cublas_lt().destroy(handle);
}

MatmulShape linear_forward(const InnerProductShape& shape) {
  return {.rows = shape.batch,
          .columns = shape.out_features,
          .inner = shape.in_features,
          .is_right_transposed = true};
}

MatmulShape linear_backward_input(const InnerProductShape& shape) {
  return {.rows = shape.batch, .columns = shape.in_features, .inner = shape.out_features};
}

MatmulShape linear_backward_weight(const InnerProductShape& shape) {
  return {.rows = shape.out_features,
          .columns = shape.in_features,
          .inner = shape.batch,
          .is_left_transposed = true};
}

// cuBLASLt computes D = A B for column-major matrices, and reads a row-major matrix as its
// transpose. Since (left right)^T = right^T left^T, right is passed as A and left as B.
Matmul::Matmul(const MatmulShape& shape, const MatmulOptions& options)
    : shape_(checked(shape, options)),
      options_(options),
      description_(compute_type(options)),
      a_(layout_of(options.type, shape.inner, shape.columns, shape.is_right_transposed)),
      b_(layout_of(options.type, shape.rows, shape.inner, shape.is_left_transposed)),
      d_(layout_of(options.type, shape.rows, shape.columns, false)) {
  description_.set(CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.is_right_transposed));
  description_.set(CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.is_left_transposed));
  description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE, native(options.epilogue));
  description_.set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, options.multiprocessors);
  if (has_kept(options.epilogue))
    description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                     static_cast<std::int64_t>(kept_stride(shape, options.epilogue)));
}

std::size_t Matmul::kept_bytes() const {
  if (!has_kept(options_.epilogue)) return 0;
  const std::size_t count = shape_.rows * kept_stride(shape_, options_.epilogue);
  return has_kept_bits(options_.epilogue) ? count / 8 : count * size_of(options_.type);
}

void Matmul::point_at(const void* vector, const void* kept) {
  if (options_.epilogue != Epilogue::kNone)
    description_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (has_kept(options_.epilogue))
    description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, kept);
}

std::optional<Matmul::Algorithm> Matmul::find(const CublasLt& lt, std::size_t workspace_bytes) {
  // The heuristic reads only the alignment of these pointers, so pass the least alignment that
  // callers guarantee.
  const auto* aligned = reinterpret_cast<const void*>(std::uintptr_t{kAlignment});
  point_at(aligned, aligned);
  const MatmulPreference preference(workspace_bytes, kAlignment);
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status = cublas_lt().matmul_algo_get_heuristic(
      lt.get(), description_.get(), a_.get(), b_.get(), d_.get(), d_.get(), preference.get(), 1,
      &result, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0))
    return std::nullopt;
  check_cublas_lt(status, "matmul_algo_get_heuristic");
  check_cublas_lt(result.state, "matmul_algo_get_heuristic");
  return Algorithm{result.algo, result.workspaceSize};
}

// Queries the heuristic only once. run() uses the same algorithm, so both agree.
bool Matmul::can_run(const CublasLt& lt, std::size_t workspace_bytes) {
  if (!algorithm_) algorithm_ = find(lt, workspace_bytes);
  return algorithm_ && algorithm_->workspace_bytes <= workspace_bytes;
}

void Matmul::run(const CublasLt& lt, const MatmulOperands& operands, std::span<std::byte> workspace,
                 device::Stream& stream) {
  HORO_CHECK(fits(operands, options_.epilogue),
             "Matmul: a pointer to a bias, its gradient or kept values must be set if and only if "
             "the epilogue uses it");
  if (!algorithm_) algorithm_ = find(lt, workspace.size());
  if (!algorithm_)
    throw DeviceError(fmt::format("cuBLASLt has no algorithm for {} with {} bytes of workspace",
                                  describe(shape_, options_.type), workspace.size()));
  HORO_CHECK(
      workspace.size() >= algorithm_->workspace_bytes,
      fmt::format("Matmul: workspace has {} bytes; the algorithm of the first run requires {}",
                  workspace.size(), algorithm_->workspace_bytes));
  if (is_backward(options_.epilogue))
    point_at(operands.bias_gradient, operands.read_kept);
  else
    point_at(operands.bias, operands.kept);
  const float one = 1, zero = 0;
  HORO_CUBLAS_LT(matmul, lt.get(), description_.get(), &one, operands.right, a_.get(),
                 operands.left, b_.get(), &zero, operands.result, d_.get(), operands.result,
                 d_.get(), &algorithm_->algorithm, workspace.data(), workspace.size(),
                 static_cast<cudaStream_t>(stream.native()));
}

}  // namespace horo::ops::cuda
