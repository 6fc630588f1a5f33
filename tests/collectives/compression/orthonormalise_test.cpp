#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "collectives/compression/low_rank.h"

namespace horo::collectives {
namespace {

double dot(const float* a, const float* b, std::size_t length) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Checks that every vector has length 1 or is zero, and that they are orthogonal. Returns the
// number of nonzero vectors.
std::size_t count_orthonormal(const std::vector<float>& vectors, std::size_t length) {
  std::size_t found = 0;
  for (std::size_t a = 0; a < vectors.size() / length; ++a) {
    const double norm = dot(&vectors[a * length], &vectors[a * length], length);
    EXPECT_NEAR(norm, norm > 0.5 ? 1 : 0, 1e-6);
    found += norm > 0.5;
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_NEAR(dot(&vectors[a * length], &vectors[b * length], length), 0, 1e-6);
  }
  return found;
}

std::vector<float> random_vectors(std::size_t count, std::size_t length, float scale = 1) {
  std::mt19937 random(static_cast<unsigned>(count * 1000 + length));
  std::normal_distribution<float> normal;
  std::vector<float> vectors(count * length);
  for (float& x : vectors) x = scale * normal(random);
  return vectors;
}

TEST(Orthonormalise, HandlesAnySizeAndScale) {
  for (const std::size_t count : {1, 2, 4, 7})
    for (const std::size_t length : {7, 16, 33, 1000})
      for (const float scale : {1e-30f, 1.0f, 1e30f}) {
        std::vector<float> vectors = random_vectors(count, length, scale);
        const std::vector<float> first(vectors.begin(),
                                       vectors.begin() + static_cast<std::ptrdiff_t>(length));
        ASSERT_TRUE(orthonormalise(vectors.data(), count, length));
        EXPECT_EQ(count_orthonormal(vectors, length), count);
        EXPECT_NEAR(dot(first.data(), vectors.data(), length) / scale,
                    std::sqrt(dot(first.data(), first.data(), length)) / scale, 1e-3);
      }
}

TEST(Orthonormalise, ZeroesDependentVectors) {
  std::vector<float> vectors = random_vectors(4, 50);
  for (std::size_t i = 0; i < 50; ++i) {
    vectors[i] = 0;
    vectors[2 * 50 + i] = -4 * vectors[50 + i];
  }
  ASSERT_TRUE(orthonormalise(vectors.data(), 4, 50));
  EXPECT_EQ(count_orthonormal(vectors, 50), 2u);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(vectors[i], 0);
    EXPECT_EQ(vectors[100 + i], 0);
  }
}

TEST(Orthonormalise, SeparatesNearlyDependentVectors) {
  std::vector<float> vectors = random_vectors(6, 300);
  const std::vector<float> noise = random_vectors(6, 301);
  for (std::size_t k = 1; k < 6; ++k)
    for (std::size_t i = 0; i < 300; ++i)
      vectors[k * 300 + i] = vectors[i] + 1e-5f * noise[k * 300 + i];
  ASSERT_TRUE(orthonormalise(vectors.data(), 6, 300));
  EXPECT_EQ(count_orthonormal(vectors, 300), 6u);
}

TEST(Orthonormalise, RejectsNonFiniteValues) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> vectors = random_vectors(2, 20);
    vectors[33] = bad;
    EXPECT_FALSE(orthonormalise(vectors.data(), 2, 20));
    EXPECT_NE(vectors[33], 0);
  }
}

}  // namespace
}  // namespace horo::collectives
