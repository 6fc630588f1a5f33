#include "ops/optim/parameter_rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cmath>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

bool applies(const ParameterRule& rule, const Parameter& parameter) {
  return matches(rule.pattern, parameter.name) &&
         (!rule.vectors_only || parameter.value.shape().rank() <= 1);
}

void check_factor(const ParameterRule& rule, const char* what, float factor) {
  HORO_CHECK(std::isfinite(factor) && factor >= 0,
             fmt::format("parameter rule {}: the factor of the {} is {}; must be at least 0",
                         rule.pattern, what, factor));
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<RateFactors> factors_of(std::span<Parameter* const> parameters,
                                    std::span<const ParameterRule> rules) {
  std::vector<RateFactors> factors(parameters.size());
  for (const ParameterRule& rule : rules) {
    check_factor(rule, "learning rate", rule.learning_rate);
    check_factor(rule, "weight decay", rule.weight_decay);
    bool has_match = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!applies(rule, *parameters[i])) continue;
      has_match = true;
      factors[i].learning_rate *= rule.learning_rate;
      factors[i].weight_decay *= rule.weight_decay;
    }
    HORO_CHECK(has_match,
               fmt::format("parameter rule {}: no {} of the model has such a name; the first of {} "
                           "parameters is {}",
                           rule.pattern, rule.vectors_only ? "vector" : "parameter",
                           parameters.size(), parameters.empty() ? "" : parameters[0]->name));
  }
  return factors;
}

std::string describe(std::span<const ParameterRule> rules) {
  std::string text;
  const auto add = [&](const ParameterRule& rule, const char* what, float factor) {
    if (factor != 1)
      text += fmt::format("{} {} of {}{} times {}", text.empty() ? ";" : ",", what,
                          rule.vectors_only ? "vectors " : "", rule.pattern, factor);
  };
  for (const ParameterRule& rule : rules) {
    add(rule, "learning rate", rule.learning_rate);
    add(rule, "weight decay", rule.weight_decay);
  }
  return text;
}

}  // namespace horo::ops
