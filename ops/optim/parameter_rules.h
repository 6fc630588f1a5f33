#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Factors of the rates of some parameters. A layer gets a learning rate of its own by a rule for
/// its names; {.vectors_only = true, .weight_decay = 0} exempts biases, and the scales and shifts
/// of normalisation, from decay.
struct ParameterRule {
  /// The names of the parameters, with the wildcards of fnmatch(3): "output.*", "block?.conv1.*".
  std::string pattern = "*";
  bool vectors_only = false;  ///< only parameters of at most one dimension
  float learning_rate = 1;    ///< of at least 0; 0 keeps the values as they are
  float weight_decay = 1;     ///< of at least 0
};

/// The product of the rules that match a parameter.
struct RateFactors {
  float learning_rate = 1;  ///< of the parameter, times that of the optimizer
  float weight_decay = 1;   ///< of the parameter, times that of the optimizer

  /// Whether all members are equal.
  bool operator==(const RateFactors&) const = default;
};

/// One for each parameter. Throws InvalidArgument if a factor is not finite or below 0, or if a
/// rule matches no parameter, which is usually a typing error.
std::vector<RateFactors> factors_of(std::span<Parameter* const> parameters,
                                    std::span<const ParameterRule> rules);

/// Whether `name` matches the wildcards of `pattern`.
bool matches(const std::string& pattern, const std::string& name);

/// "; learning rate of output.* times 10, weight decay of vectors * times 0": the rules in one
/// line; empty without rules.
std::string describe(std::span<const ParameterRule> rules);

}  // namespace horo::ops
