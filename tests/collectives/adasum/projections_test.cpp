#include <gtest/gtest.h>

#include <cmath>

#include "collectives/adasum/adasum.h"

namespace horo::collectives {
namespace {

TEST(Projections, CoverEveryElementAtAnyCount) {
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<float> a(count), b(count);
    double aa = 0, bb = 0, ab = 0;
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<float>(i + 1);
      b[i] = static_cast<float>(i % 5) - 3.0f;
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
      ab += double{a[i]} * b[i];
    }
    const Projections found = project(a.data(), b.data(), count);
    EXPECT_EQ(found.a_squared, aa);
    EXPECT_EQ(found.b_squared, bb);
    EXPECT_EQ(found.a_by_b, ab);
  }
}

TEST(Projections, ProductsDoNotUnderflowOrOverflow) {
  const float tiny = 1e-40f, huge = 3e38f;
  const Projections found = project(&tiny, &huge, 1);
  EXPECT_GT(found.a_squared, 0);
  EXPECT_TRUE(std::isfinite(found.b_squared));
}

TEST(Combine, AddsOrthogonalVectors) {
  std::vector<double> a{3, 0, 0}, b{0, -4, 5};
  combine(project(a.data(), b.data(), 3), a.data(), b.data(), 3);
  EXPECT_EQ(a, (std::vector<double>{3, -4, 5}));
}

TEST(Combine, AveragesParallelVectors) {
  std::vector<double> a{3, 1, -2}, b = a;
  combine(project(a.data(), b.data(), 3), a.data(), b.data(), 3);
  EXPECT_EQ(a, (std::vector<double>{3, 1, -2}));
  std::vector<double> c{1, 2}, d{-1, -2};
  combine(project(c.data(), d.data(), 2), c.data(), d.data(), 2);
  EXPECT_EQ(c, (std::vector<double>{0, 0}));
  std::vector<double> e{1, 2}, f{3, 6};
  combine(project(e.data(), f.data(), 2), e.data(), f.data(), 2);
  EXPECT_NEAR(e[0], 2, 1e-15);
  EXPECT_NEAR(e[1], 4, 1e-15);
}

TEST(Combine, IgnoresZeroVector) {
  const std::vector<float> values{0.5f, -7, 1e-30f};
  std::vector<float> zero(3), a = values;
  combine(project(a.data(), zero.data(), 3), a.data(), zero.data(), 3);
  EXPECT_EQ(a, values);
  combine(project(zero.data(), a.data(), 3), zero.data(), a.data(), 3);
  EXPECT_EQ(zero, values);
  std::vector<float> both(3), none(3);
  combine(project(both.data(), none.data(), 3), both.data(), none.data(), 3);
  EXPECT_EQ(both, none);
}

}  // namespace
}  // namespace horo::collectives
