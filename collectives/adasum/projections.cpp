#include "collectives/adasum/projections.h"

namespace horo::collectives {
namespace {

// Several sums side by side, so that the compiler can use vector instructions and additions do not
// wait for each other.
template <typename T>
Projections project_lanes(const T* a, const T* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double a_squared[kLanes] = {}, b_squared[kLanes] = {}, a_by_b[kLanes] = {};
  const auto add = [&](std::size_t lane, double x, double y) {
    a_squared[lane] += x * x;
    b_squared[lane] += y * y;
    a_by_b[lane] += x * y;
  };
  const std::size_t even = count - count % kLanes;
  for (std::size_t i = 0; i < even; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, a[i + lane], b[i + lane]);
  for (std::size_t i = even; i < count; ++i) add(i - even, a[i], b[i]);
  Projections sum;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum.a_squared += a_squared[lane];
    sum.b_squared += b_squared[lane];
    sum.a_by_b += a_by_b[lane];
  }
  return sum;
}

// A zero vector has no direction: the other one stays as it is.
double weight(double product, double squared) {
  return squared == 0 ? 1.0 : 1.0 - product / (2 * squared);
}

template <typename T>
void combine_elements(const Projections& whole, T* a, const T* b, std::size_t count) {
  const double a_weight = weight(whole.a_by_b, whole.a_squared);
  const double b_weight = weight(whole.a_by_b, whole.b_squared);
  for (std::size_t i = 0; i < count; ++i)
    a[i] =
        static_cast<T>(a_weight * static_cast<double>(a[i]) + b_weight * static_cast<double>(b[i]));
}

}  // namespace

Projections project(const float* a, const float* b, std::size_t count) {
  return project_lanes(a, b, count);
}
Projections project(const double* a, const double* b, std::size_t count) {
  return project_lanes(a, b, count);
}
void combine(const Projections& whole, float* a, const float* b, std::size_t count) {
  combine_elements(whole, a, b, count);
}
void combine(const Projections& whole, double* a, const double* b, std::size_t count) {
  combine_elements(whole, a, b, count);
}

}  // namespace horo::collectives
