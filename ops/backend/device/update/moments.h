#pragma once

#include "horo/device/launch.h"

// The arithmetic of batch normalisation for single values, in float.

namespace horo::ops::device_kernels {

/// The mean of `count` values and the sum of their squared distances from it. Trivial, for shared
/// memory; Moments{} has no values.
struct Moments {
  float count, mean, squares;

  /// The moments of the values of both (Chan, Golub and LeVeque). Does not subtract large sums from
  /// each other, so it keeps its accuracy if the mean is large.
  HORO_KERNEL static Moments combine(const Moments& a, const Moments& b) {
    const float count = a.count + b.count;
    if (count == 0) return a;
    const float distance = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + distance * share,
            a.squares + b.squares + distance * distance * a.count * share};
  }
  /// Divided by the number of values.
  HORO_KERNEL float variance() const { return squares / count; }
  /// Divided by one less than the number of values.
  HORO_KERNEL float unbiased_variance() const { return squares / (count - 1); }
};

/// Adds `x` to the mean and the squares of `count` values, to which it already belongs (Welford).
/// `share` is 1 / count.
HORO_KERNEL inline void add_value(float& mean, float& squares, float x, float share) {
  const float distance = x - mean;
  mean += distance * share;
  squares += distance * (x - mean);
}

/// What the gradients of a channel need: the sums of the gradient by the output, and of its product
/// with the distance of the input from the mean.
struct GradientSums {
  float gradient, product;

  HORO_KERNEL static GradientSums combine(const GradientSums& a, const GradientSums& b) {
    return {a.gradient + b.gradient, a.product + b.product};
  }
};

/// (x - mean) * factor + shift.
struct Normalisation {
  float mean, factor, shift;
  HORO_KERNEL float operator()(float x) const { return (x - mean) * factor + shift; }
};

/// The gradient by the input of a channel with `count` values whose statistics depend on the input:
/// scale * inverse * (g - mean of g - n * mean of (g * n)), with n = (x - mean) * inverse.
struct NormalisationGradient {
  float mean, inverse, factor;        // factor: scale * inverse
  float mean_gradient, mean_product;  // of g, and of g * n

  HORO_KERNEL float operator()(float g, float x) const {
    return factor * (g - mean_gradient - (x - mean) * inverse * mean_product);
  }
};

/// ReLU; NaN stays NaN.
HORO_KERNEL inline float relu(float x) { return x <= 0 ? 0 : x; }
/// The gradient `g` by the output `y` of ReLU as the gradient by its input.
HORO_KERNEL inline float relu_gradient(float g, float y) { return y <= 0 ? 0 : g; }

}  // namespace horo::ops::device_kernels
