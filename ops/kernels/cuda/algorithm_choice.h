#pragma once

#include <cudnn.h>

#include <cstddef>
#include <optional>
#include <span>

namespace horo::ops::cuda {

/// An algorithm of cuDNN for a convolution in one direction.
template <typename Algorithm>
struct AlgorithmChoice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t workspace_bytes;
};

/// The first of `ranked`, the best one first, that works, gives the same bits every time, needs at
/// most `workspace_bytes`, and, where `math_type` is CUDNN_FMA_MATH, drops no bits of its factors.
/// `Performance`: one of cuDNN's three of the kind.
template <typename Performance>
auto choose_algorithm(std::span<const Performance> ranked, cudnnMathType_t math_type,
                      std::size_t workspace_bytes) {
  using Algorithm = decltype(Performance::algo);
  const bool is_exact = math_type == CUDNN_FMA_MATH;
  std::optional<AlgorithmChoice<Algorithm>> choice;
  for (const Performance& one : ranked) {
    const bool drops_bits = one.mathType == CUDNN_TENSOR_OP_MATH ||
                            one.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (one.status != CUDNN_STATUS_SUCCESS || one.determinism != CUDNN_DETERMINISTIC ||
        one.memory > workspace_bytes || (is_exact && drops_bits))
      continue;
    choice = {one.algo, is_exact ? math_type : one.mathType, one.memory};
    break;
  }
  return choice;
}

}  // namespace horo::ops::cuda
