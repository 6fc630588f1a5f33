#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::collectives {

/// Makes `count` consecutive vectors of `length` values orthonormal by modified Gram-Schmidt in
/// double precision. Each vector is orthogonalised twice ("twice is enough", Giraud, Langou,
/// Rozloznik 2005), which keeps nearly dependent vectors orthogonal up to rounding. A vector that
/// depends on the preceding ones, or is zero, becomes zero. If a value is not finite, returns false
/// and leaves the vectors unchanged. Cost: 4 * count^2 * length operations.
bool orthonormalise(float* vectors, std::size_t count, std::size_t length);

/// Fills `values` with independent numbers that are uniform in [-1, 1). The same seed gives the
/// same numbers on every machine. Uses Splitmix64 (Steele, Lea, Flood 2014).
inline void fill_with_random(std::span<float> values, std::uint64_t seed) {
  for (float& value : values) {
    seed += 0x9e3779b97f4a7c15ull;
    std::uint64_t x = seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    value = static_cast<float>(static_cast<std::int32_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
  }
}

/// The shape of a low-rank approximation left^T * right of a row-major matrix of `rows` by
/// `columns`. `left` has `rank` rows of `rows` values, and `right` has `rank` rows of `columns`
/// values. Both factors have the short side first, so every loop runs along memory. The order of
/// every sum is fixed, independent of the instruction set. Arguments must not overlap, except that
/// `out` of subtract_product() may be `matrix`.
struct LowRank {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

/// left = right * matrix^T. Like the other three, takes 2 * rank * rows * columns operations. Reads
/// the matrix once.
void project_rows(const LowRank& shape, const float* matrix, const float* right, float* left);
/// right = left * matrix.
void project_columns(const LowRank& shape, const float* matrix, const float* left, float* right);
/// out = left^T * right.
void multiply(const LowRank& shape, const float* left, const float* right, float* out);
/// out = matrix - left^T * right; returns the sum of the squares of `out`.
double subtract_product(const LowRank& shape, const float* matrix, const float* left,
                        const float* right, float* out);

}  // namespace horo::collectives
