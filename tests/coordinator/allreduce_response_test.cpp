#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "horo/coordinator/executor.h"

namespace horo::coordinator {
namespace {

// Reducing any value with the identity leaves its bits.
template <typename T>
void expect_neutral(const std::vector<T>& values) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    std::vector<T> identity(values.size());
    fill_with_identity(data_type_of<T>, op, identity.data(), identity.size());
    std::vector<T> result(values.size());
    const std::byte* sources[] = {reinterpret_cast<const std::byte*>(identity.data()),
                                  reinterpret_cast<const std::byte*>(values.data())};
    collectives::reduce(data_type_of<T>, op, sources, values.size(), 1,
                        reinterpret_cast<std::byte*>(result.data()), Stores::kPlain);
    EXPECT_EQ(std::memcmp(result.data(), values.data(), values.size() * sizeof(T)), 0)
        << name_of(data_type_of<T>) << " " << name_of(op);
  }
}

TEST(AllreduceResponse, AbsentRankAddsIdentity) {
  expect_neutral<float>({1.5f, -3e38f, 3e38f, 1e-40f, std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()});
  expect_neutral<double>({-1.25, 1e308, -1e308, 4.0});
  expect_neutral<Float16>({Float16(1.5f), Float16(-65504.0f), Float16(65504.0f)});
  expect_neutral<BFloat16>({BFloat16(-2.5f), BFloat16(3e38f), BFloat16(-3e38f)});
  expect_neutral<std::int8_t>({-128, -1, 5, 127});
  expect_neutral<std::uint8_t>({0, 1, 200, 255});
  expect_neutral<std::int32_t>(
      {std::numeric_limits<std::int32_t>::min(), 7, std::numeric_limits<std::int32_t>::max()});
  expect_neutral<std::int64_t>(
      {std::numeric_limits<std::int64_t>::min(), -9, std::numeric_limits<std::int64_t>::max()});
}

}  // namespace
}  // namespace horo::coordinator
