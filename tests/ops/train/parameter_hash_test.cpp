#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/testing.h"
#include "ops/train/step/model_state.h"

namespace horo::ops {
namespace {

Parameter make_parameter_of(std::string name, Shape shape, float value) {
  Parameter parameter{std::move(name), Tensor(shape), Tensor()};
  parameter.value.fill(value);
  return parameter;
}

std::uint64_t hash_of(const std::string& name, const Shape& shape, float value) {
  Parameter parameter = make_parameter_of(name, shape, value);
  return hash_parameters(std::vector<Parameter*>{&parameter});
}

TEST(ParameterHash, DependsOnNameShapeAndEveryBit) {
  const auto hash = hash_of("w", {2, 3}, 1.0f);
  EXPECT_EQ(hash, hash_of("w", {2, 3}, 1.0f));
  EXPECT_NE(hash, hash_of("v", {2, 3}, 1.0f));
  EXPECT_NE(hash, hash_of("w", {3, 2}, 1.0f));
  EXPECT_NE(hash, hash_of("w", {2, 3}, 1.0000001f));
  EXPECT_NE(hash_of("w", {1}, 0.0f), hash_of("w", {1}, -0.0f));
}

TEST(ParameterHash, IsTheSameTextOnAllRanks) {
  testing::run_ranks(3, [](Context& context) {
    Parameter parameter = make_parameter_of("w", {4}, 2.0f);
    const std::vector<Parameter*> parameters{&parameter};
    const auto text = agreed_parameter_hash(context, parameters);
    EXPECT_EQ(text.size(), 16u);
    EXPECT_EQ(std::stoull(text, nullptr, 16), hash_parameters(parameters));
  });
}

TEST(ParameterHash, NamesTheRanksThatDiffer) {
  testing::run_ranks(4, [](Context& context) {
    Parameter parameter = make_parameter_of("w", {4}, 2.0f);
    if (context.rank() % 2 == 1) parameter.value.values()[3] = static_cast<float>(context.rank());
    try {
      (void)agreed_parameter_hash(context, std::vector<Parameter*>{&parameter});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rank(s) 1, 3"));
    }
  });
}

}  // namespace
}  // namespace horo::ops
