// Trains a classifier of handwritten digits on all ranks of a job, with the public API only. Shows
// how a program provides its data set and model to ops::Trainer; examples/training has the parts
// that it shares with train_cifar. Without --data it draws its own digits.
//
//   hororun -np 4 build/release/bin/train_mnist --epochs 3
#include "examples/training/train_program.h"
#include "ops/data/datasets/digits_dataset.h"
#include "ops/data/datasets/mnist_dataset.h"
#include "ops/nn/models/models.h"

namespace {

using namespace horo::ops;

std::unique_ptr<Dataset> open_dataset(const TrainOptions& options, Split split) {
  if (!options.data.empty()) return std::make_unique<MnistDataset>(options.data, split);
  const std::size_t size = split == Split::kTrain ? 20000 : 4000;
  return std::make_unique<DigitsDataset>(DigitsOptions{.split = split, .size = size});
}

std::unique_ptr<Sequential> make_model(const TrainOptions& options, const Dataset& dataset) {
  const auto& images = dynamic_cast<const LabelledImages&>(dataset);
  const auto input = images.sample_shape();
  const auto classes = images.class_count();
  if (options.model == "mlp")
    return make_mlp({.input = input, .classes = classes, .seed = options.seed});
  return make_cnn({.input = input,
                   .classes = classes,
                   .batch_norm = options.model == "cnn-bn",
                   .seed = options.seed});
}

}  // namespace

int main(int argc, char** argv) {
  const TrainProgram program{
      .command = {.program = "train_mnist",
                  .purpose = "Trains a classifier of handwritten digits on all ranks of a job.",
                  .data_help =
                      "directory of the four MNIST files, plain or .gz; without it, digits "
                      "that the program draws",
                  .model_help = "mlp, cnn, or cnn-bn (with batch normalisation)",
                  .models = {"mlp", "cnn", "cnn-bn"},
                  .defaults = {.model = "cnn"}},
      .open_dataset = open_dataset,
      .make_model = make_model};
  return run_train_program(program, argc, argv);
}
