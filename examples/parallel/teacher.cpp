#include "examples/parallel/teacher.h"

#include <cmath>
#include <random>

namespace horo::examples {

Samples make_samples(std::uint64_t first, std::size_t count) {
  Samples samples{ops::Tensor({count, kInputs}), ops::Tensor({count, kOutputs})};
  for (std::size_t row = 0; row < count; ++row) {
    std::mt19937_64 random(first + row);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    float* const x = samples.inputs.data() + row * kInputs;
    for (std::size_t i = 0; i < kInputs; ++i) x[i] = uniform(random);
    for (std::size_t o = 0; o < kOutputs; ++o)
      samples.targets.data()[row * kOutputs + o] = std::sin(2.0f * x[o]) * x[o + 4] + x[o + 8];
  }
  return samples;
}

double checksum(const ops::Tensor& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.count(); ++i)
    sum += static_cast<double>(values.values()[i]) * static_cast<double>(i % 97 + 1);
  return sum;
}

}  // namespace horo::examples
