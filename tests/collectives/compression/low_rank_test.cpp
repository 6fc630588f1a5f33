#include "collectives/compression/low_rank.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace horo::collectives {
namespace {

struct Case {
  explicit Case(const LowRank& of) : shape(of) {
    std::mt19937 random(static_cast<unsigned>(of.rows * 131 + of.columns * 17 + of.rank));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const auto& [values, count] :
         {std::pair{&matrix, of.rows * of.columns}, std::pair{&left, of.rank * of.rows},
          std::pair{&right, of.rank * of.columns}})
      for (std::size_t i = 0; i < count; ++i) values->push_back(uniform(random));
  }
  double product(std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t k = 0; k < shape.rank; ++k)
      sum += static_cast<double>(left[k * shape.rows + i]) * right[k * shape.columns + j];
    return sum;
  }
  LowRank shape;
  std::vector<float> matrix, left, right;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::size_t rows : {1, 2, 3, 4, 5, 31})
    for (const std::size_t columns : {1, 2, 15, 16, 17, 100})
      for (const std::size_t rank : {1, 2, 4, 5, 9}) all.emplace_back(LowRank{rows, columns, rank});
  return all;
}

TEST(LowRank, ProjectsRows) {
  for (const Case& c : cases()) {
    std::vector<float> out(c.shape.rank * c.shape.rows, 99);
    project_rows(c.shape, c.matrix.data(), c.right.data(), out.data());
    for (std::size_t k = 0; k < c.shape.rank; ++k)
      for (std::size_t i = 0; i < c.shape.rows; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < c.shape.columns; ++j)
          sum += static_cast<double>(c.matrix[i * c.shape.columns + j]) *
                 c.right[k * c.shape.columns + j];
        ASSERT_NEAR(out[k * c.shape.rows + i], sum, 1e-5);
      }
  }
}

TEST(LowRank, ProjectsColumns) {
  for (const Case& c : cases()) {
    std::vector<float> out(c.shape.rank * c.shape.columns, 99);
    project_columns(c.shape, c.matrix.data(), c.left.data(), out.data());
    for (std::size_t k = 0; k < c.shape.rank; ++k)
      for (std::size_t j = 0; j < c.shape.columns; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < c.shape.rows; ++i)
          sum +=
              static_cast<double>(c.matrix[i * c.shape.columns + j]) * c.left[k * c.shape.rows + i];
        ASSERT_NEAR(out[k * c.shape.columns + j], sum, 1e-5);
      }
  }
}

TEST(LowRank, MultipliesAndSubtracts) {
  for (const Case& c : cases()) {
    std::vector<float> product(c.matrix.size(), 99);
    std::vector<float> rest(c.matrix.size(), 99);
    multiply(c.shape, c.left.data(), c.right.data(), product.data());
    const double squares =
        subtract_product(c.shape, c.matrix.data(), c.left.data(), c.right.data(), rest.data());
    double expected_squares = 0;
    for (std::size_t i = 0; i < c.shape.rows; ++i)
      for (std::size_t j = 0; j < c.shape.columns; ++j) {
        const std::size_t at = i * c.shape.columns + j;
        ASSERT_NEAR(product[at], c.product(i, j), 1e-5);
        ASSERT_NEAR(rest[at], c.matrix[at] - c.product(i, j), 1e-5);
        expected_squares += static_cast<double>(rest[at]) * rest[at];
      }
    EXPECT_NEAR(squares, expected_squares, 1e-9 * (1 + expected_squares));
    std::vector<float> in_place = c.matrix;
    subtract_product(c.shape, in_place.data(), c.left.data(), c.right.data(), in_place.data());
    EXPECT_EQ(in_place, rest);
  }
}

}  // namespace
}  // namespace horo::collectives
