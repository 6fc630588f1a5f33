#include <cmath>

#include "examples/own_model/model.h"
#include "horo/device/launch.h"

namespace {

namespace device = horo::device;

// Calls function(i) for one i < count in each thread. launch.h is not installed: a program outside
// of this repository launches its own kernels on the stream with the handle Memory::handle().
template <typename Function>
struct ForEach {
  Function function;
  unsigned count;
  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const unsigned i = place.block * place.threads + place.thread;
    if (i < count) function(i);
  }
};

template <typename Function>
void for_each(device::Stream* stream, std::size_t count, const Function& function) {
  const ForEach<Function> kernel{function, static_cast<unsigned>(count)};
  const device::Grid grid{(kernel.count + 127) / 128, 128};
  if (stream == nullptr)
    device::run_on_host(grid, kernel, device::NoTable());
  else
    device::launch(*stream, grid, kernel);
}

// A number from -1 to 1 that depends only on `index` (SplitMix64).
HORO_KERNEL float random_number(std::uint64_t index) {
  std::uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return static_cast<float>((bits ^ (bits >> 31)) >> 40) / 8388608.0f - 1;
}

struct Initialize {
  float* parameters;
  std::uint64_t seed;
  HORO_KERNEL void operator()(unsigned i) const { parameters[i] = random_number((seed << 32) + i); }
};

// Computes the error of sample k. A sample depends only on its global index, so the data does not
// depend on the number of ranks.
struct Forward {
  Layers model;
  Batch batch;
  HORO_KERNEL void operator()(unsigned k) const {
    float* const input = batch.inputs + k * kInputs;
    for (unsigned i = 0; i < kInputs; ++i)
      input[i] = random_number((batch.first + k) * kInputs + i);
    float output = model.b2[0];
    for (unsigned h = 0; h < kHidden; ++h) {
      float sum = model.b1[h];
      for (unsigned i = 0; i < kInputs; ++i) sum += model.w1[h * kInputs + i] * input[i];
      const float hidden = std::tanh(sum);
      batch.hidden[k * kHidden + h] = hidden;
      output += model.w2[h] * hidden;
    }
    batch.errors[k] = output - std::sin(3 * input[0]) * input[1];
  }
};

// Computes the gradients of hidden unit h. The thread of unit 0 also computes those of the output.
struct Backward {
  Layers model, gradient;
  Batch batch;
  float* loss;
  HORO_KERNEL void operator()(unsigned h) const {
    float w1[kInputs] = {}, b1 = 0, w2 = 0, b2 = 0, squares = 0;
    for (unsigned k = 0; k < batch.count; ++k) {
      const float error = batch.errors[k];
      const float by_output = 2 * error / static_cast<float>(batch.count);
      const float hidden = batch.hidden[k * kHidden + h];
      const float by_hidden = by_output * model.w2[h] * (1 - hidden * hidden);
      for (unsigned i = 0; i < kInputs; ++i) w1[i] += by_hidden * batch.inputs[k * kInputs + i];
      b1 += by_hidden;
      w2 += by_output * hidden;
      b2 += by_output;
      squares += error * error;
    }
    for (unsigned i = 0; i < kInputs; ++i) gradient.w1[h * kInputs + i] = w1[i];
    gradient.b1[h] = b1;
    gradient.w2[h] = w2;
    if (h != 0) return;
    gradient.b2[0] = b2;
    loss[0] = squares / static_cast<float>(batch.count);
  }
};

struct Update {
  float* parameters;
  const float* gradients;
  float rate;
  HORO_KERNEL void operator()(unsigned i) const { parameters[i] -= rate * gradients[i]; }
};

}  // namespace

void initialize(device::Stream* stream, float* parameters, std::size_t count, std::uint64_t seed) {
  for_each(stream, count, Initialize{parameters, seed});
}

void forward_backward(device::Stream* stream, const Layers& model, const Batch& batch,
                      const Layers& gradient, float* loss) {
  for_each(stream, batch.count, Forward{model, batch});
  for_each(stream, kHidden, Backward{model, gradient, batch, loss});
}

void update(device::Stream* stream, float* parameters, const float* gradients, std::size_t count,
            float rate) {
  for_each(stream, count, Update{parameters, gradients, rate});
}
