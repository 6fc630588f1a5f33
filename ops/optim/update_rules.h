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

/// The update of one value by AdamW or Adam; state[0] is its m, state[1] its v.
struct AdamWRule {
  static constexpr int kStates = 2;
  float learning_rate, beta1, beta2, epsilon;
  float weight_decay;              ///< of the value
  float coupled_decay;             ///< added to the gradient; either of the two is 0
  float correction1, correction2;  ///< bias_correction()

  HORO_KERNEL void operator()(float& value, float* state, float gradient) const {
    value -= learning_rate * direction(value, state, gradient);
  }
  /// Updates the state and returns the change of the value per learning rate.
  HORO_KERNEL float direction(float value, float* state, float gradient) const {
    const float decayed = gradient + coupled_decay * value;
    state[0] = beta1 * state[0] + (1 - beta1) * decayed;
    state[1] = beta2 * state[1] + (1 - beta2) * decayed * decayed;
    return direction(value, state);
  }
  /// The same for a state that is up to date.
  HORO_KERNEL float direction(float value, const float* state) const {
    return correction1 * state[0] / (std::sqrt(correction2 * state[1]) + epsilon) +
           weight_decay * value;
  }
};

// Rules of layer-wise rates first see all values of a tensor with measure(), which returns a
// direction. The update is scaled by ratio_of() the norms of the values and of the directions.

/// The update of one value by Lars; state[0] is its momentum.
struct LarsRule {
  static constexpr int kStates = 1;
  static constexpr bool kMeasureWrites = false;
  float learning_rate, momentum, weight_decay, trust_coefficient;
  float ratio = 1;

  HORO_KERNEL float measure(float&, float*, float gradient) const { return gradient; }
  HORO_KERNEL float ratio_of(double value_norm, double gradient_norm) const {
    if (!(value_norm > 0 && gradient_norm > 0)) return 1;
    return static_cast<float>(trust_coefficient * value_norm /
                              (gradient_norm + weight_decay * value_norm));
  }
  HORO_KERNEL void operator()(float& value, float* state, float gradient) const {
    state[0] = momentum * state[0] + ratio * (gradient + weight_decay * value);
    value -= learning_rate * state[0];
  }
};

/// The update of one value by Lamb: measure() updates the state of AdamW, and the update reads the
/// state instead of the gradient.
struct LambRule : AdamWRule {
  static constexpr bool kMeasureWrites = true;
  static constexpr bool kReadsOnlyStates = true;
  float ratio = 1;

  HORO_KERNEL float measure(float& value, float* state, float gradient) const {
    return direction(value, state, gradient);
  }
  HORO_KERNEL float ratio_of(double value_norm, double direction_norm) const {
    if (!(value_norm > 0 && direction_norm > 0)) return 1;
    return static_cast<float>(value_norm / direction_norm);
  }
  HORO_KERNEL void operator()(float& value, float* state, float) const {
    value -= learning_rate * ratio * direction(value, state);
  }
};

/// The direction of Muon before it is made orthogonal, in place of the value; state[0] is its
/// momentum. The ratio makes its norm 1.
struct MuonRule {
  static constexpr int kStates = 1;
  static constexpr bool kMeasureWrites = true;
  float momentum;
  bool nesterov;

  HORO_KERNEL float measure(float& value, float* state, float gradient) const {
    state[0] = momentum * state[0] + (1 - momentum) * gradient;
    value = nesterov ? momentum * state[0] + (1 - momentum) * gradient : state[0];
    return value;
  }
  HORO_KERNEL float ratio_of(double, double direction_norm) const {
    return static_cast<float>(1 / (direction_norm + 1e-7));
  }
};

/// The rule of step `step`, counted from 1. Throws InvalidArgument for options out of range.
AdamWRule rule_of(const AdamWOptions& options, std::int64_t step);

}  // namespace horo::ops
