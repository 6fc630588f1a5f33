// A model of plain arrays without a layer library. Shows the three steps that a program with its
// own training code needs on many ranks: broadcast the initial parameters, average the gradients in
// each step, and give each rank its part of the data. Two layers learn y = sin(3 a) * b from
// generated samples.
//
//   hororun -np 4 build/release/bin/own_model
#include <horo/horo.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

namespace {

constexpr std::size_t kInputs = 2;
constexpr std::size_t kHidden = 64;
constexpr std::size_t kGlobalBatch = 256;
constexpr int kSteps = 2000;
constexpr float kLearningRate = 0.05f;

/// y = w2 . tanh(w1 x + b1) + b2
struct Model {
  std::vector<float> w1, b1, w2, b2;

  Model() : w1(kHidden * kInputs), b1(kHidden), w2(kHidden), b2(1) {}
  std::vector<std::vector<float>*> arrays() { return {&w1, &b1, &w2, &b2}; }
};

struct Sample {
  float input[kInputs];
  float target;
};

// A sample depends only on its global index, so the data does not depend on the number of ranks.
Sample make_sample(std::uint64_t index) {
  std::mt19937_64 random(index);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Sample sample{{uniform(random), uniform(random)}, 0};
  sample.target = std::sin(3 * sample.input[0]) * sample.input[1];
  return sample;
}

// Adds the gradient of the sample times `scale` to `gradient`. Returns the squared error.
float forward_backward(const Model& model, const Sample& sample, float scale, Model& gradient) {
  float hidden[kHidden];
  float output = model.b2[0];
  for (std::size_t h = 0; h < kHidden; ++h) {
    hidden[h] = std::tanh(model.w1[h * 2] * sample.input[0] +
                          model.w1[h * 2 + 1] * sample.input[1] + model.b1[h]);
    output += model.w2[h] * hidden[h];
  }
  const float error = output - sample.target;
  const float by_output = 2 * error * scale;
  gradient.b2[0] += by_output;
  for (std::size_t h = 0; h < kHidden; ++h) {
    gradient.w2[h] += by_output * hidden[h];
    const float by_hidden = by_output * model.w2[h] * (1 - hidden[h] * hidden[h]);
    gradient.b1[h] += by_hidden;
    for (std::size_t i = 0; i < kInputs; ++i)
      gradient.w1[h * kInputs + i] += by_hidden * sample.input[i];
  }
  return error * error;
}

void train(horo::Context& ctx) {
  Model model;
  Model gradient;
  std::mt19937 random(
      static_cast<unsigned>(ctx.rank()));  // the broadcast replaces all but rank 0's values
  for (auto* array : model.arrays())
    for (float& value : *array) value = std::normal_distribution<float>(0, 0.5f)(random);

  const char* names[] = {"w1", "b1", "w2", "b2"};
  std::vector<horo::NamedTensor> gradients;
  for (std::size_t i = 0; i < 4; ++i) {
    ctx.broadcast(horo::TensorView(*model.arrays()[i]), {.name = names[i], .root = 0});
    gradients.push_back({names[i], horo::TensorView(*gradient.arrays()[i])});
  }
  std::vector<float> loss(1);
  gradients.push_back(
      {"loss", horo::TensorView(loss)});    // averaged along with the gradients, at no cost
  horo::GradientSync sync(ctx, gradients);  // kAverage by default

  const std::size_t batch = kGlobalBatch / static_cast<std::size_t>(ctx.size());
  for (int step = 0; step < kSteps; ++step) {
    for (auto* array : gradient.arrays()) array->assign(array->size(), 0.0f);
    loss[0] = 0;
    const std::size_t first = static_cast<std::size_t>(step) * kGlobalBatch +
                              static_cast<std::size_t>(ctx.rank()) * batch;
    const float scale = 1.0f / static_cast<float>(batch);
    for (std::size_t k = 0; k < batch; ++k)
      loss[0] += scale * forward_backward(model, make_sample(first + k), scale, gradient);

    for (std::size_t i = 0; i < gradients.size(); ++i)
      sync.ready(i);  // a larger model calls this during backward
    sync.wait();

    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t i = 0; i < model.arrays()[a]->size(); ++i)
        (*model.arrays()[a])[i] -= kLearningRate * (*gradient.arrays()[a])[i];
    if (ctx.rank() == 0 && (step % 400 == 0 || step == kSteps - 1))
      std::printf("step %4d  loss %.5f\n", step, static_cast<double>(loss[0]));
  }
}

}  // namespace

int main() {
  try {
    horo::Context ctx = horo::init();
    train(ctx);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_model: %s\n", error.what());
    return 1;
  }
}
