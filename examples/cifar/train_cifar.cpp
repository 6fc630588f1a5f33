// Trains a residual network on small images on all ranks of a job, with the public API only. Adds
// augmentation and batch normalisation to what train_mnist shows. Without --data it draws coloured
// digits.
//
//   hororun -np 4 build/release/bin/train_cifar --epochs 3
#include <fmt/core.h>

#include <filesystem>

#include "examples/training/train_program.h"
#include "ops/data/datasets/cifar_dataset.h"
#include "ops/data/datasets/coloured_digits_dataset.h"
#include "ops/data/images/image_dataset.h"
#include "ops/nn/models/models.h"
#include "ops/nn/models/resnet.h"

namespace {

using namespace horo::ops;

// The folder `train` or `test` of --data, which has images or packed images; if it exists.
std::unique_ptr<LabelledImages> open_folder(const TrainOptions& options, Split split) {
  const auto folder =
      std::filesystem::path(options.data) / (split == Split::kTrain ? "train" : "test");
  if (!std::filesystem::is_directory(folder)) return nullptr;
  return open_images(folder, {.size = ImageSize{32, 32}});
}

std::unique_ptr<Dataset> open_dataset(const TrainOptions& options, Split split) {
  if (auto images = open_folder(options, split)) return images;
  if (!options.data.empty()) return std::make_unique<CifarDataset>(options.data, split);
  const std::size_t size = split == Split::kTrain ? 10000 : 1000;
  return std::make_unique<ColouredDigitsDataset>(
      ColouredDigitsOptions{.split = split, .size = size});
}

std::unique_ptr<Sequential> make_model(const TrainOptions& options, const Dataset& dataset) {
  const auto& images = dynamic_cast<const LabelledImages&>(dataset);
  HORO_CHECK(options.model == "cnn" || images.class_count() == 10,
             fmt::format("--model {} has 10 classes, the data set has {}; choose --model cnn",
                         options.model, images.class_count()));
  if (options.model == "resnet20") return make_resnet20(options.seed);
  if (options.model == "resnet18") return make_resnet18(options.seed);
  if (options.model == "resnet50") return make_resnet50(options.seed);
  if (options.model == "vgg11") return make_vgg11({.seed = options.seed});
  return make_cnn(
      {.input = images.sample_shape(), .classes = images.class_count(), .seed = options.seed});
}

}  // namespace

// The batch size, the rates and the weight decay are those of the ResNet paper.
int main(int argc, char** argv) {
  const TrainProgram program{
      .command = {.program = "train_cifar",
                  .purpose = "Trains a classifier of CIFAR-10's photographs on all ranks of a job.",
                  .data_help =
                      "directory of the .bin files of CIFAR-10's binary version, plain or "
                      ".gz, or of images: two folders, train and test, each with a sub-folder "
                      "of PNG or JPEG files for each class, or packed by hororun pack; without "
                      "it, coloured digits that the program draws",
                  .model_help =
                      "resnet20; resnet18, resnet50 or vgg11 (wider: for GPUs); or cnn (smaller, "
                      "without batch normalisation)",
                  .models = {"resnet20", "resnet18", "resnet50", "vgg11", "cnn"},
                  .defaults = {.model = "resnet20",
                               .epochs = 10,
                               .recipe = {.learning_rate = 0.1f},
                               .augmentation = "auto"}},
      .open_dataset = open_dataset,
      .make_model = make_model};
  return run_train_program(program, argc, argv);
}
