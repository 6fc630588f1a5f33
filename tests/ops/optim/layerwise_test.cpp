// Lars, Lamb and Muon beside their definitions, in double.
#include <cmath>
#include <functional>

#include "horo/base/error.h"
#include "ops/optim/lamb.h"
#include "ops/optim/lars.h"
#include "ops/optim/muon.h"
#include "tests/ops/optim/trained_parameters.h"

namespace horo::ops {
namespace {

using reference::Values;

/// What an optimizer does with one parameter.
struct ReferenceRule {
  Values first, second;
  int steps = 0;

  explicit ReferenceRule(std::size_t count) : first(count), second(count) {}

  void lars(Values& value, const Values& gradient, const LarsOptions& options, bool is_matrix) {
    const double decay = options.weight_decay;
    const double ratio = is_matrix ? options.trust_coefficient * norm_of(value) /
                                         (norm_of(gradient) + decay * norm_of(value))
                                   : 1;
    for (std::size_t i = 0; i < value.size(); ++i) {
      first[i] = options.momentum * first[i] + ratio * (gradient[i] + decay * value[i]);
      value[i] -= options.learning_rate * first[i];
    }
  }

  Values adamw_direction(const Values& value, const Values& gradient, const AdamWOptions& options) {
    ++steps;
    Values direction(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      first[i] = options.beta1 * first[i] + (1 - options.beta1) * gradient[i];
      second[i] = options.beta2 * second[i] + (1 - options.beta2) * gradient[i] * gradient[i];
      const double mean = first[i] / (1 - std::pow(options.beta1, steps));
      const double square = second[i] / (1 - std::pow(options.beta2, steps));
      direction[i] = mean / (std::sqrt(square) + options.epsilon) + options.weight_decay * value[i];
    }
    return direction;
  }
  void lamb(Values& value, const Values& gradient, const AdamWOptions& options, bool is_matrix) {
    const Values direction = adamw_direction(value, gradient, options);
    const double ratio = is_matrix ? norm_of(value) / norm_of(direction) : 1;
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] -= options.learning_rate * ratio * direction[i];
  }

  void muon(Values& value, const Values& gradient, const MuonOptions& options, std::size_t rows) {
    Values x(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      first[i] = options.momentum * first[i] + (1 - options.momentum) * gradient[i];
      x[i] = options.nesterov ? options.momentum * first[i] + (1 - options.momentum) * gradient[i]
                              : first[i];
    }
    const std::size_t columns = value.size() / rows;
    const double norm = norm_of(x) + 1e-7;
    for (double& one : x) one /= norm;
    orthogonalise(x, rows, columns);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (std::size_t i = 0; i < value.size(); ++i)
      value[i] -=
          options.adamw.learning_rate * (scale * x[i] + options.adamw.weight_decay * value[i]);
  }
  // X (a + b X^T X + c (X^T X)^2), whichever side is the shorter.
  static void orthogonalise(Values& x, std::size_t rows, std::size_t columns) {
    for (int step = 0; step < 5; ++step) {
      Values square(columns * columns), fourth(columns * columns), next(x.size());
      for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t j = 0; j < columns; ++j)
          for (std::size_t r = 0; r < rows; ++r)
            square[i * columns + j] += x[r * columns + i] * x[r * columns + j];
      for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t j = 0; j < columns; ++j)
          for (std::size_t k = 0; k < columns; ++k)
            fourth[i * columns + j] += square[i * columns + k] * square[k * columns + j];
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < columns; ++j) {
          double& to = next[r * columns + j];
          to = 3.4445 * x[r * columns + j];
          for (std::size_t k = 0; k < columns; ++k)
            to += x[r * columns + k] *
                  (-4.7750 * square[k * columns + j] + 2.0315 * fourth[k * columns + j]);
        }
      x = next;
    }
  }
};

/// Runs some steps and expects the values of `apply(rule, value, gradient, parameter)`.
void expect_definition(
    Optimizer& optimizer, TrainedParameters& trained, double tolerance,
    const std::function<void(ReferenceRule&, Values&, const Values&, const Parameter&)>& apply) {
  std::vector<Values> expected;
  std::vector<ReferenceRule> rules;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    expected.push_back(in_double(trained[i].value.values()));
    rules.emplace_back(expected[i].size());
  }
  for (int step = 1; step <= 6; ++step) {
    for (std::size_t i = 0; i < trained.size(); ++i) {
      assign(trained[i].gradient, TrainedParameters::gradient(trained[i], i, step));
      apply(rules[i], expected[i], in_double(trained[i].gradient.values()), trained[i]);
    }
    optimizer.step();
    for (std::size_t i = 0; i < trained.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(step) + ", " + trained[i].name);
      expect_close(trained[i].value.values(), expected[i], tolerance);
    }
  }
}

TEST(Lars, FollowsTheDefinition) {
  TrainedParameters trained;
  const LarsOptions options{
      .learning_rate = 2, .momentum = 0.8f, .weight_decay = 0.1f, .trust_coefficient = 0.02f};
  Lars lars(trained.parameters(), options);
  lars.set_rules({{.vectors_only = true, .learning_rate = 0.01f, .weight_decay = 0}});
  expect_definition(
      lars, trained, 1e-5,
      [&](ReferenceRule& rule, Values& value, const Values& gradient, const Parameter& parameter) {
        const bool is_matrix = parameter.value.shape().rank() > 1;
        LarsOptions own = options;
        if (!is_matrix) own.learning_rate *= 0.01f, own.weight_decay = 0;
        rule.lars(value, gradient, own, is_matrix);
      });
  EXPECT_EQ(lars.states().size(), 1u);
  EXPECT_EQ(lars.states()[0].name, "momentum");
}

TEST(Lars, RatioIsOneWithoutANorm) {
  Parameter p = make_parameter("p", {1, 2});
  assign(p.value, {0, 0});
  assign(p.gradient, {1, -2});
  Lars lars({&p}, {.learning_rate = 0.5f, .momentum = 0.5f});
  lars.step();
  EXPECT_EQ(values_of(p.value), (std::vector<float>{-0.5f, 1}));
  assign(p.gradient, {0, 0});
  lars.step();
  EXPECT_EQ(values_of(p.value), (std::vector<float>{-0.75f, 1.5f}));
}

TEST(Lamb, FollowsTheDefinition) {
  TrainedParameters trained;
  const AdamWOptions options{.learning_rate = 0.05f,
                             .beta1 = 0.8f,
                             .beta2 = 0.95f,
                             .epsilon = 1e-3f,
                             .weight_decay = 0.1f};
  Lamb lamb(trained.parameters(), options);
  expect_definition(
      lamb, trained, 1e-5,
      [&](ReferenceRule& rule, Values& value, const Values& gradient, const Parameter& parameter) {
        rule.lamb(value, gradient, options, parameter.value.shape().rank() > 1);
      });
  EXPECT_EQ(lamb.steps(), 6);
}

TEST(Muon, FollowsTheDefinition) {
  for (const bool nesterov : {false, true}) {
    TrainedParameters trained;
    const MuonOptions options{
        .adamw = {.learning_rate = 0.05f, .epsilon = 1e-3f, .weight_decay = 0.1f},
        .momentum = 0.9f,
        .nesterov = nesterov};
    Muon muon(trained.parameters(), options);
    expect_definition(muon, trained, 1e-4,
                      [&](ReferenceRule& rule, Values& value, const Values& gradient,
                          const Parameter& parameter) {
                        if (parameter.value.shape().rank() > 1 && parameter.name[0] != 'o')
                          rule.muon(value, gradient, options, parameter.value.shape()[0]);
                        else
                          rule.lamb(value, gradient, options.adamw, false);
                      });
  }
}

TEST(Muon, NeedsNoSecondMomentsOfMatrices) {
  TrainedParameters trained;
  Muon muon(trained.parameters(), {});
  AdamW adamw(trained.parameters(), {});
  std::size_t matrices = 0;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const bool by_muon = muon.second_moments()[i].count() == 0;
    EXPECT_EQ(by_muon, trained[i].value.shape().rank() > 1 && trained[i].name != "output.weight");
    if (by_muon) matrices += trained[i].value.bytes();
  }
  EXPECT_EQ(muon.state_bytes() + matrices, adamw.state_bytes());
}

TEST(Orthogonaliser, MovesSingularValuesNearOne) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{6, 17}, {17, 6}, {1, 9}}) {
    Tensor matrix = varied_tensor({rows, columns}, 7);
    const double norm = norm_of(in_double(matrix.values()));
    for (float& value : matrix.values()) value /= static_cast<float>(norm);
    Orthogonaliser(cpu_backend(), rows, columns).apply(matrix);
    const std::size_t side = std::min(rows, columns);
    // The diagonal of the square on the shorter side: sums of squares of singular values.
    for (std::size_t i = 0; i < side; ++i) {
      double square = 0;
      for (std::size_t k = 0; k < std::max(rows, columns); ++k) {
        const double value = matrix.values()[rows <= columns ? i * columns + k : k * columns + i];
        square += value * value;
      }
      EXPECT_GT(square, 0.4) << rows << " x " << columns;
      EXPECT_LT(square, 1.6) << rows << " x " << columns;
    }
  }
  Tensor zero = Tensor::zeros({3, 4});
  Orthogonaliser(cpu_backend(), 3, 4).apply(zero);
  EXPECT_EQ(values_of(zero), std::vector<float>(12, 0.0f));
}

TEST(LayerwiseOptimizers, RefuseOptionsOutOfRange) {
  const auto lars = [](const LarsOptions& options) {
    return message_of<InvalidArgument>([&] { Lars({}, options); });
  };
  EXPECT_EQ(lars({.momentum = 0}), "Lars: momentum is 0; must be above 0");
  EXPECT_EQ(lars({.trust_coefficient = 0}), "Lars: trust coefficient is 0; must be above 0");
  EXPECT_EQ(message_of<InvalidArgument>([] { Lamb({}, {.beta1 = 1}); }),
            "Lamb: beta1 is 1; must be in [0, 1)");
  EXPECT_THROW(Lamb({}, {.coupled_decay = true}), InvalidArgument);
  EXPECT_EQ(message_of<InvalidArgument>([] { Muon({}, {.momentum = 1}); }),
            "Muon: momentum is 1; must be in [0, 1)");
}

}  // namespace
}  // namespace horo::ops
