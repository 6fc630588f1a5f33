#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace horo::collectives {

/// What Adasum needs to know of two vectors a and b, or of parts of them.
struct Projections {
  double a_squared = 0;  ///< a.a
  double b_squared = 0;  ///< b.b
  double a_by_b = 0;     ///< a.b
};

/// Of `count` elements (float or double), in float64 and in an order that depends on `count` alone.
Projections project(const float* a, const float* b, std::size_t count);
Projections project(const double* a, const double* b, std::size_t count);

/// a = Adasum(a, b), where `whole` are the projections of the whole vectors, and a and b parts of
/// them. Computed in float64 and rounded once.
void combine(const Projections& whole, float* a, const float* b, std::size_t count);
void combine(const Projections& whole, double* a, const double* b, std::size_t count);

/// The numbers of all `projections`, to be added up.
inline std::span<double> as_doubles(std::vector<Projections>& projections) {
  static_assert(sizeof(Projections) == 3 * sizeof(double));
  return {reinterpret_cast<double*>(projections.data()), 3 * projections.size()};
}

}  // namespace horo::collectives
