#include "tests/fakes/cublas_lt/problem.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace horo::fakes::lt {
namespace {

bool is_one_of(cublasLtEpilogue_t epilogue, std::initializer_list<cublasLtEpilogue_t> list) {
  return std::ranges::find(list, epilogue) != list.end();
}

constexpr auto kKnownEpilogues = {
    CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_RELU_BIAS,
    CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_DGELU_BGRAD,   CUBLASLT_EPILOGUE_BGRADB};

bool is_known(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

const float kRoot = std::sqrt(2 / std::numbers::pi_v<float>);

float gelu(float x) { return 0.5f * x * (1 + std::tanh(kRoot * (x + 0.044715f * x * x * x))); }

float gelu_slope(float x) {
  const float t = std::tanh(kRoot * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715f * x * x);
}

/// The values of op(matrix), column by column.
std::vector<float> packed(const Layout& layout, const void* data, bool is_transposed,
                          bool has_tf32) {
  const std::size_t rows = is_transposed ? layout.columns : layout.rows;
  std::vector<float> values(layout.rows * layout.columns);
  for (std::size_t j = 0; j < layout.columns; ++j)
    for (std::size_t i = 0; i < layout.rows; ++i) {
      const std::size_t at = j * static_cast<std::size_t>(layout.leading) + i;
      const float value = load(data, at, layout.element());
      values[is_transposed ? i * rows + j : j * rows + i] = has_tf32 ? as_tf32(value) : value;
    }
  return values;
}

/// One run of a problem.
struct Run {
  const Problem& problem;
  const Operands& operands;
  std::size_t rows = problem.d.rows, columns = problem.d.columns;
  std::vector<float> bias_gradient =
      std::vector<float>(problem.has_bias_gradient() ? std::max(rows, columns) : 0);

  std::size_t kept_place(std::size_t i, std::size_t j) const {
    return j * static_cast<std::size_t>(problem.description.kept_leading) + i;
  }
  bool kept_bit(std::size_t i, std::size_t j) const {
    const std::size_t at = kept_place(i, j);
    return (static_cast<const std::uint8_t*>(problem.description.kept)[at / 8] >> (at % 8) & 1) !=
           0;
  }
  void keep_bit(std::size_t i, std::size_t j, bool bit) const {
    const std::size_t at = kept_place(i, j);
    auto& byte = static_cast<std::uint8_t*>(problem.description.kept)[at / 8];
    const unsigned mask = 1u << (at % 8);
    byte = static_cast<std::uint8_t>(bit ? byte | mask : byte & ~mask);
  }
  float finish(std::size_t i, std::size_t j, float value) {
    const Element type = problem.d.element();
    if (problem.has_bias()) value += load(problem.description.bias, i, type);
    switch (problem.description.epilogue) {
      case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
        keep_bit(i, j, value > 0);
        return std::max(value, 0.0f);
      case CUBLASLT_EPILOGUE_RELU_BIAS:
        return std::max(value, 0.0f);
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        store(problem.description.kept, kept_place(i, j), type, value);
        return gelu(value);
      case CUBLASLT_EPILOGUE_GELU_BIAS:
        return gelu(value);
      case CUBLASLT_EPILOGUE_DRELU_BGRAD:
        value = kept_bit(i, j) ? value : 0;
        bias_gradient[i] += value;
        return value;
      case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        value *= gelu_slope(load(problem.description.kept, kept_place(i, j), type));
        bias_gradient[i] += value;
        return value;
      default:
        return value;
    }
  }
  void store_column(std::size_t j, const std::vector<float>& sums) {
    const Element type = problem.d.element();
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = j * static_cast<std::size_t>(problem.d.leading) + i;
      float value = operands.alpha * sums[i];
      if (operands.beta != 0) value += operands.beta * load(operands.c, at, type);
      store(operands.d, at, type, finish(i, j, value));
    }
  }
};

}  // namespace

bool Problem::has_bias() const {
  return is_one_of(
      description.epilogue,
      {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS,
       CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
}

bool Problem::has_bias_gradient() const {
  return is_one_of(description.epilogue, {CUBLASLT_EPILOGUE_DRELU_BGRAD,
                                          CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADB});
}

bool Problem::has_kept_bits() const {
  return is_one_of(description.epilogue,
                   {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU_BGRAD});
}

bool Problem::has_kept_values() const {
  return is_one_of(description.epilogue,
                   {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU_BGRAD});
}

bool Problem::writes_kept() const { return !has_bias_gradient(); }

std::uint64_t Problem::inner() const {
  return description.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
}

std::size_t Problem::bias_bytes() const {
  const bool is_of_columns = description.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  return (is_of_columns ? d.columns : d.rows) * size_of(d.element());
}

std::size_t Problem::kept_bytes() const {
  const std::size_t count = d.columns * static_cast<std::size_t>(description.kept_leading);
  return has_kept_bits() ? count / 8 : count * size_of(d.element());
}

void Problem::check(const std::function<void(bool, const char*)>& require) const {
  const bool is_a_transposed = description.transpose_a != CUBLAS_OP_N;
  const bool is_b_transposed = description.transpose_b != CUBLAS_OP_N;
  require(is_known(a.type) && a.type == b.type && a.type == d.type,
          "the matrices have different types, or one that the fake does not support");
  require(description.scale == CUDA_R_32F && (description.compute == CUBLAS_COMPUTE_32F ||
                                              description.compute == CUBLAS_COMPUTE_32F_FAST_TF32),
          "the fake adds in float32 only");
  require(description.transpose_a != CUBLAS_OP_C && description.transpose_b != CUBLAS_OP_C,
          "the fake has no conjugate transpose");
  require((is_a_transposed ? a.columns : a.rows) == d.rows, "op(A) has other rows than D");
  require((is_b_transposed ? b.rows : b.columns) == d.columns, "op(B) has other columns than D");
  require((is_b_transposed ? b.columns : b.rows) == inner(),
          "op(A) has other columns than op(B) rows");
  require(is_one_of(description.epilogue, kKnownEpilogues), "the fake does not know the epilogue");
  if (has_kept_bits())
    require(description.kept_leading % 128 == 0,
            "the leading dimension of the bits is not a multiple of 128");
  if (has_kept_values())
    require(description.kept_leading % 8 == 0,
            "the leading dimension of the kept values is not a multiple of 8");
  if (has_kept_bits() || has_kept_values())
    require(description.kept_leading >= static_cast<std::int64_t>(d.rows),
            "the leading dimension of the kept data is less than the rows of D");
}

bool Problem::is_supported() const {
  const auto is_aligned = [](const Layout& layout) {
    return static_cast<std::size_t>(layout.leading) * size_of(layout.element()) % 16 == 0;
  };
  const bool is_plain = !has_kept_bits() && !has_kept_values() && !has_bias_gradient();
  return is_plain || (is_aligned(a) && is_aligned(b) && is_aligned(d));
}

std::uint64_t Problem::key() const {
  std::uint64_t key = 0;
  const auto add = [&key](std::uint64_t value) { key = (key ^ value) * 0x100000001b3; };
  for (const Layout& layout : {a, b, d})
    for (const std::uint64_t value : {static_cast<std::uint64_t>(layout.type), layout.rows,
                                      layout.columns, static_cast<std::uint64_t>(layout.leading)})
      add(value);
  for (const auto value :
       {static_cast<std::int64_t>(description.compute),
        static_cast<std::int64_t>(description.transpose_a),
        static_cast<std::int64_t>(description.transpose_b),
        static_cast<std::int64_t>(description.epilogue), description.kept_leading,
        static_cast<std::int64_t>(description.multiprocessors)})
    add(static_cast<std::uint64_t>(value));
  return key;
}

void compute(const Problem& problem, const Operands& operands) {
  Run run{problem, operands};
  const bool has_tf32 = problem.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a =
      packed(problem.a, operands.a, problem.description.transpose_a != CUBLAS_OP_N, has_tf32);
  const auto b =
      packed(problem.b, operands.b, problem.description.transpose_b != CUBLAS_OP_N, has_tf32);
  const std::size_t inner = problem.inner();
  for (std::size_t j = 0; j < run.columns; ++j) {
    std::vector<float> sums(run.rows);
    for (std::size_t k = 0; k < inner; ++k) {
      const float factor = b[j * inner + k];
      const float* const column = &a[k * run.rows];
      for (std::size_t i = 0; i < run.rows; ++i) sums[i] += column[i] * factor;
      if (problem.description.epilogue == CUBLASLT_EPILOGUE_BGRADB) run.bias_gradient[j] += factor;
    }
    run.store_column(j, sums);
  }
  const std::size_t count = problem.bias_bytes() / size_of(problem.d.element());
  for (std::size_t i = 0; problem.has_bias_gradient() && i < count; ++i)
    store(problem.description.bias, i, problem.d.element(), run.bias_gradient[i]);
}

}  // namespace horo::fakes::lt
