#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/cudnn/objects.h"

namespace horo::fakes::dnn {

enum class Direction { kForward, kBackwardData, kBackwardFilter };

/// A convolution in one direction, which computes one of the three tensors from the other two.
struct Convolution {
  Direction direction;
  Tensor images, filter, output;
  Window window;

  /// Calls violate(rule) if the parts do not fit together.
  void check(const std::function<void(const std::string&)>& violate) const;
  const Tensor& first() const;
  const Tensor& second() const;
  const Tensor& result() const;
};

/// How an algorithm computes, beside its order of additions.
struct Precision {
  bool has_tf32 = false;         ///< drops bits of float32 factors
  bool is_deterministic = true;  ///< otherwise the last bit differs from run to run
};

/// The two tensors that are read, in the order images, filter, output, and the result.
struct ConvolutionOperands {
  const void *first, *second;
  void* result;
};

void compute(const Convolution& convolution, const ConvolutionOperands& operands,
             const Precision& precision, float alpha = 1, float beta = 0);

}  // namespace horo::fakes::dnn
