#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::collectives {

/// Makes `count` consecutive vectors of `length` values orthonormal by modified Gram-Schmidt in
/// double precision. Orthogonalises each vector twice ("twice is enough", Giraud, Langou, Rozloznik
/// 2005), so that even nearly dependent vectors become orthogonal up to rounding. A vector that is
/// zero, or that up to rounding depends linearly on the preceding vectors, becomes zero. If a value
/// is not finite, returns false and leaves the vectors unchanged. Cost: about 4 * count^2 * length
/// operations.
bool orthonormalise(float* vectors, std::size_t count, std::size_t length);

/// Fills `values` with pseudo-random numbers from a uniform distribution over [-1, 1). The same
/// seed gives the same numbers on every machine. Uses Splitmix64 (Steele, Lea, Flood 2014).
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
/// values. With this layout of the factors, the innermost loops of the functions below access
/// consecutive memory. The order of every sum does not depend on the instruction set. The arguments
/// of these functions must not overlap, except that `out` of subtract_product() may be equal to
/// `matrix`.
struct LowRank {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

/// left = right * matrix^T. This function and the next three take about 2 * rank * rows * columns
/// operations each.
void project_rows(const LowRank& shape, const float* matrix, const float* right, float* left);
/// right = left * matrix.
void project_columns(const LowRank& shape, const float* matrix, const float* left, float* right);
/// out = left^T * right.
void multiply(const LowRank& shape, const float* left, const float* right, float* out);
/// out = matrix - left^T * right. Returns the sum of the squares of `out`.
double subtract_product(const LowRank& shape, const float* matrix, const float* left,
                        const float* right, float* out);

}  // namespace horo::collectives
