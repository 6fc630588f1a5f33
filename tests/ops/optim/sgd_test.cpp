#include "ops/optim/sgd.h"

#include "horo/base/error.h"
#include "ops/nn/initialise.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

Parameter parameter_with(const std::vector<float>& value, const std::vector<float>& gradient) {
  Parameter parameter = make_parameter("p", {value.size()});
  assign(parameter.value, value);
  assign(parameter.gradient, gradient);
  return parameter;
}

TEST(Sgd, PlainByHand) {
  Parameter p = parameter_with({1, -2, 0.5f}, {10, 20, -40});
  Sgd sgd({&p}, {.learning_rate = 0.125f});
  sgd.step();
  EXPECT_EQ(values_of(p.value), (std::vector<float>{-0.25f, -4.5f, 5.5f}));
  EXPECT_EQ(values_of(p.gradient), (std::vector<float>{10, 20, -40}));
  EXPECT_TRUE(sgd.momentum_buffers().empty());
}

TEST(Sgd, MomentumAndDecayByHand) {
  // powers of two throughout, so that the hand computation is exact
  Parameter p = parameter_with({2, -4}, {1, 3});
  Sgd sgd({&p}, {.learning_rate = 0.5f, .momentum = 0.5f, .weight_decay = 0.25f});
  sgd.step();  // g = {1.5, 2}; m = g; value = {2 - 0.75, -4 - 1}
  EXPECT_EQ(values_of(p.value), (std::vector<float>{1.25f, -5.0f}));
  EXPECT_EQ(values_of(sgd.momentum_buffers()[0]), (std::vector<float>{1.5f, 2.0f}));
  assign(p.gradient, {0, -1});
  sgd.step();  // g = {0.3125, -2.25}; m = {1.0625, -1.25}
  EXPECT_EQ(values_of(p.value), (std::vector<float>{0.71875f, -4.375f}));
}

TEST(Sgd, NesterovByHand) {
  Parameter p = parameter_with({2, -4}, {1, 3});
  Sgd sgd({&p}, {.learning_rate = 0.5f, .momentum = 0.5f, .nesterov = true});
  sgd.step();  // m = {1, 3}; value -= 0.5 * {1.5, 4.5}
  EXPECT_EQ(values_of(p.value), (std::vector<float>{1.25f, -6.25f}));
  assign(p.gradient, {2, -1});
  sgd.step();  // m = {2.5, 0.5}; value -= 0.5 * {3.25, -0.75}
  EXPECT_EQ(values_of(p.value), (std::vector<float>{-0.375f, -5.875f}));
}

TEST(Sgd, LearningRateAndBuffersCanBeSet) {
  Parameter a = parameter_with({1, 2}, {1, 1});
  Parameter b = parameter_with({3}, {2});
  Sgd sgd({&a, &b}, {.learning_rate = 1.0f, .momentum = 0.5f});
  ASSERT_EQ(sgd.momentum_buffers().size(), 2u);
  assign(sgd.momentum_buffers()[1], {8});  // as a checkpoint would
  sgd.set_learning_rate(0.25f);
  sgd.step();
  EXPECT_EQ(values_of(a.value), (std::vector<float>{0.75f, 1.75f}));
  EXPECT_EQ(values_of(b.value), (std::vector<float>{1.5f}));
}

TEST(Sgd, RefusesOptionsOutOfRange) {
  const auto text = [](const SgdOptions& options) {
    return message_of<InvalidArgument>([&] { Sgd({}, options); });
  };
  EXPECT_EQ(text({.learning_rate = -1}), "Sgd: learning rate is -1; must be finite and at least 0");
  EXPECT_EQ(text({.momentum = 1}), "Sgd: momentum is 1; must be in [0, 1)");
  EXPECT_EQ(text({.weight_decay = -0.5f}), "Sgd: weight decay is -0.5; must be at least 0");
  EXPECT_EQ(text({.nesterov = true}), "Sgd: nesterov needs a momentum above 0");
  Sgd sgd({}, {});
  EXPECT_THROW(sgd.set_learning_rate(std::nanf("")), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
