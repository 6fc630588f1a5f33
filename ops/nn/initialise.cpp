#include "ops/nn/initialise.h"

#include <cmath>
#include <utility>

#include "horo/base/hash.h"
#include "ops/backend/philox.h"

namespace horo::ops {

void initialise(Layer& model, std::uint64_t seed, double gain) {
  for (Parameter* parameter : model.parameters()) initialise(*parameter, seed, gain);
}

void initialise(Parameter& parameter, std::uint64_t seed, double gain) {
  const Shape& shape = parameter.value.shape();
  if (shape.rank() < 2 || shape.count() == 0) return;
  // Values depend on the seed, the name of the parameter and the position alone. Models with equal
  // names therefore start with equal values on every rank and machine, in whatever order the layers
  // were added.
  const std::uint64_t key = mix(seed, Hash().add(parameter.name).value());
  const auto fan_in = static_cast<double>(shape.count() / shape[0]);
  // Kaiming's uniform distribution: the variance of U(-bound, bound) is bound^2 / 3 = gain^2 /
  // fan_in.
  const double bound = gain * std::sqrt(3.0 / fan_in);
  const auto values = parameter.value.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // One call of philox() gives four numbers. Adding 0.5 selects the middle of an interval, so
    // `uniform` is distributed symmetrically in (0, 1).
    const std::uint32_t word = philox(key, 0, i / 4)[i % 4];
    const double uniform = (static_cast<double>(word) + 0.5) * 0x1p-32;
    values[i] = static_cast<float>((2.0 * uniform - 1.0) * bound);
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
