#include "examples/torch/digits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/data/datasets/mnist.h>
#include <torch/torch.h>

#include "horo/base/error.h"

namespace {

constexpr std::int64_t kClasses = 10, kSide = 28;

Digits draw_digits(bool for_training) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const at::Tensor patterns = torch::randn({kClasses, 1, kSide, kSide}, generator);
  const std::int64_t samples = for_training ? 4000 : 1000;
  generator.set_current_seed(for_training ? 2 : 3);
  const at::Tensor targets =
      torch::randint(0, kClasses, {samples}, generator, at::TensorOptions(at::kLong));
  const at::Tensor noise = torch::randn({samples, 1, kSide, kSide}, generator);
  return {patterns.index_select(0, targets) * 0.2 + noise, targets};
}

}  // namespace

Digits load_digits(const std::string& folder, bool for_training) {
  if (folder.empty()) return draw_digits(for_training);
  using torch::data::datasets::MNIST;
  try {
    const MNIST samples(folder, for_training ? MNIST::Mode::kTrain : MNIST::Mode::kTest);
    return {(samples.images() - 0.1307) / 0.3081, samples.targets()};
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw horo::InvalidArgument(
        "cannot read MNIST from '" + folder +
        "' (the four files must not be compressed): " + text.substr(0, text.find('\n')));
  }
}
