#pragma once

#include <cmath>
#include <cstdint>

#include "horo/device/launch.h"

namespace horo::ops {

struct AdamWOptions;

enum class Momentum { kNone, kPlain, kNesterov };

/// The update of one value by Sgd; state[0] is its momentum, if any.
template <Momentum kMomentum>
struct SgdRule {
  static constexpr int kStates = kMomentum == Momentum::kNone ? 0 : 1;
  float learning_rate, momentum, weight_decay;

  HORO_KERNEL void operator()(float& value, float* state, float gradient) const {
    const float decayed = gradient + weight_decay * value;
    if constexpr (kMomentum == Momentum::kNone) {
      value -= learning_rate * decayed;
    } else {
      state[0] = momentum * state[0] + decayed;
      value -= learning_rate *
               (kMomentum == Momentum::kNesterov ? decayed + momentum * state[0] : state[0]);
    }
  }
};

/// 1 / (1 - beta^step): corrects a moving average of `step` values that started at 0.
HORO_KERNEL inline float bias_correction(float beta, std::int64_t step) {
  return static_cast<float>(1 /
                            (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
}

/// The update of one value by AdamW; state[0] is its m, state[1] its v.
struct AdamWRule {
  static constexpr int kStates = 2;
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2;  ///< bias_correction()

  HORO_KERNEL void operator()(float& value, float* state, float gradient) const {
    state[0] = beta1 * state[0] + (1 - beta1) * gradient;
    state[1] = beta2 * state[1] + (1 - beta2) * gradient * gradient;
    const float direction = correction1 * state[0] / (std::sqrt(correction2 * state[1]) + epsilon);
    value -= learning_rate * (direction + weight_decay * value);
  }
};

/// The rule of step `step`, counted from 1. Throws InvalidArgument for options out of range.
AdamWRule rule_of(const AdamWOptions& options, std::int64_t step);

}  // namespace horo::ops
