#include "ops/nn/initialise.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "horo/base/hash.h"
#include "ops/backend/philox.h"

namespace horo::ops {

void initialise(Layer& model, std::uint64_t seed, double gain) {
  for (Parameter* parameter : model.parameters()) initialise(*parameter, seed, gain);
}

namespace {

// Values depend on the seed, the name of the parameter and the position alone. Models with equal
// names therefore start with equal values on every rank and machine, in whatever order the layers
// were added.
std::uint64_t key_of(const Parameter& parameter, std::uint64_t seed) {
  return mix(seed, Hash().add(parameter.name).value());
}

bool is_matrix(const Parameter& parameter) {
  return parameter.value.shape().rank() >= 2 && parameter.value.count() > 0;
}

/// Adding 0.5 selects the middle of an interval, so the result is distributed symmetrically in (0,
/// 1).
double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace

void initialise(Parameter& parameter, std::uint64_t seed, double gain) {
  if (!is_matrix(parameter)) return;
  const Shape& shape = parameter.value.shape();
  const std::uint64_t key = key_of(parameter, seed);
  const auto fan_in = static_cast<double>(shape.count() / shape[0]);
  // Kaiming's uniform distribution: the variance of U(-bound, bound) is bound^2 / 3 = gain^2 /
  // fan_in.
  const double bound = gain * std::sqrt(3.0 / fan_in);
  const auto values = parameter.value.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // One call of philox() gives four numbers.
    const std::uint32_t word = philox(key, 0, i / 4)[i % 4];
    values[i] = static_cast<float>((2.0 * uniform(word) - 1.0) * bound);
  }
}

// The method of Box and Muller makes one normal number of two uniform ones.
void initialise_normal(Parameter& parameter, std::uint64_t seed, double deviation) {
  if (!is_matrix(parameter)) return;
  const std::uint64_t key = key_of(parameter, seed);
  const auto values = parameter.value.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = philox(key, 0, i / 2);
    const std::size_t first = i % 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(uniform(words[first])));
    const double angle = 2.0 * std::numbers::pi * uniform(words[first + 1]);
    values[i] = static_cast<float>(deviation * radius * std::cos(angle));
  }
}

// The name has no prefix of a container yet, so layers of one shape start with equal values.
// initialise() on the whole model uses the full names.
Parameter make_parameter(std::string name, const Shape& shape) {
  Parameter parameter{std::move(name), Tensor::zeros(shape), Tensor::zeros(shape)};
  initialise(parameter, 0);
  return parameter;
}

}  // namespace horo::ops
