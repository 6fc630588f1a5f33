#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace horo::collectives {

/// Adasum(a, b) by its definition, in float64.
inline std::vector<double> reference_pair(const std::vector<double>& a,
                                          const std::vector<double>& b) {
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  if (aa == 0) return b;
  if (bb == 0) return a;
  std::vector<double> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    sum[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
  return sum;
}

/// Combines one vector per rank in a tree: neighbours form pairs, and an odd vector moves up a
/// level unchanged.
inline std::vector<double> reference_adasum(std::vector<std::vector<double>> vectors) {
  while (vectors.size() > 1) {
    std::vector<std::vector<double>> next;
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2)
      next.push_back(reference_pair(vectors[i], vectors[i + 1]));
    if (vectors.size() % 2 == 1) next.push_back(vectors.back());
    vectors = std::move(next);
  }
  return vectors.front();
}

/// A gradient element in [-1, 1] that differs by rank, tensor and index. The vectors of the ranks
/// are neither parallel nor orthogonal.
inline double gradient_value(std::size_t rank, std::size_t tensor, std::size_t index) {
  const double common = std::sin(static_cast<double>(index * 7 + tensor));
  const double own = std::cos(static_cast<double>(index * (rank + 3) + tensor * 5 + rank));
  return 0.3 * common + 0.7 * own;
}

}  // namespace horo::collectives
