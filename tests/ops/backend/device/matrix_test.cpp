// Kernels on whole matrices: transposition and sums of columns.
#include "ops/backend/device/matrix.h"

#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

template <typename To, typename From>
void check_transpose(const MatrixBatch& shape, std::size_t skip) {
  TestDevice test;
  const std::size_t count = shape.batch * shape.rows * shape.columns;
  const std::vector<float> values = rounded<From>(varied_values(count, 1));
  DeviceValues<From> x(test.device, values, skip);
  DeviceValues<To> y(test.device, std::vector<float>(count), skip);
  transpose(*test.stream, y.data(), x.data(), shape);
  test.stream->synchronize();
  std::vector<float> expected(count);
  for (std::size_t m = 0; m < shape.batch; ++m)
    for (std::size_t r = 0; r < shape.rows; ++r)
      for (std::size_t c = 0; c < shape.columns; ++c)
        expected[(m * shape.columns + c) * shape.rows + r] =
            values[(m * shape.rows + r) * shape.columns + c];
  EXPECT_EQ(y.values(), rounded<To>(expected)) << shape.rows << " x " << shape.columns;
  y.expect_guards();
}

TEST(DeviceTranspose, ExchangesRowsAndColumns) {
  for (const MatrixBatch& shape : {MatrixBatch{1, 1, 1},
                                   {3, 3, 35},
                                   {2, 64, 31},
                                   {1, 33, 65},
                                   {5, 32, 32},
                                   {2, 1, 40},
                                   {4, 9, 2}})
    for (const std::size_t skip : {0, 1}) {
      check_transpose<float, float>(shape, skip);
      check_transpose<BFloat16, float>(shape, skip);
      check_transpose<float, BFloat16>(shape, skip);
      check_transpose<BFloat16, BFloat16>(shape, skip);
    }
  check_transpose<Float16, Float16>({2, 5, 40}, 0);
}

template <typename T>
void check_column_sums(std::size_t rows, std::size_t columns, double tolerance) {
  TestDevice test;
  const std::vector<float> values = rounded<T>(varied_values(rows * columns, 2));
  DeviceValues<T> x(test.device, values, 1);
  DeviceValues<T> sums(test.device, std::vector<float>(columns), 1);
  DeviceValues<float> scratch(test.device, std::vector<float>(column_sums_scratch(rows, columns)),
                              1);
  column_sums(*test.stream, sums.data(), x.data(), rows, columns, scratch.data());
  test.stream->synchronize();
  reference::Values expected(columns);
  for (std::size_t i = 0; i < values.size(); ++i)
    expected[i % columns] += static_cast<double>(values[i]);
  expect_close(sums.values(), expected, tolerance);
  sums.expect_guards();
  scratch.expect_guards();
}

TEST(DeviceColumnSums, AddUpAllRows) {
  for (const std::size_t rows : {1, 5, 32, 33, 200, 513, 3000})
    for (const std::size_t columns : {1, 10, 32, 65}) {
      check_column_sums<float>(rows, columns, 1e-5);
      check_column_sums<BFloat16>(rows, columns, 4e-3);
      check_column_sums<Float16>(rows, columns, 1e-3);
    }
}

template <typename T>
void check_resize(std::size_t rows, std::size_t x_columns, std::size_t y_columns) {
  TestDevice test;
  const std::vector<float> values = rounded<T>(varied_values(rows * x_columns, 3));
  DeviceValues<T> x(test.device, values, 1);
  DeviceValues<T> y(test.device, std::vector<float>(rows * y_columns, 7), 1);
  resize_rows(*test.stream, y.data(), y_columns, x.data(), x_columns, rows);
  test.stream->synchronize();
  std::vector<float> expected(rows * y_columns);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (i % y_columns < x_columns) expected[i] = values[i / y_columns * x_columns + i % y_columns];
  EXPECT_EQ(y.values(), expected) << x_columns << " to " << y_columns;
  y.expect_guards();
}

TEST(DeviceResizeRows, PadsWithZerosAndCuts) {
  for (const std::size_t rows : {1, 9, 300})
    for (const auto& [x_columns, y_columns] :
         {std::pair<std::size_t, std::size_t>{3, 8}, {8, 3}, {1, 8}, {13, 16}, {5, 5}}) {
      check_resize<float>(rows, x_columns, y_columns);
      check_resize<Float16>(rows, x_columns, y_columns);
      check_resize<BFloat16>(rows, x_columns, y_columns);
    }
}

}  // namespace
}  // namespace horo::ops::device_kernels
