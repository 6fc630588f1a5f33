#include "ops/data/mnist_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "horo/base/error.h"
#include "ops/data/idx_file.h"
#include "ops/data/pixels.h"

namespace horo::ops {

namespace {

// Mean and standard deviation of the training images' pixels, as fractions of 255.
constexpr PixelScale kScale{.mean = 0.1307f, .deviation = 0.3081f};

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name) {
  HORO_CHECK(
      std::filesystem::is_directory(directory),
      fmt::format("{}: is not a directory; name the one with the MNIST files", directory.string()));
  for (const auto* ending : {"", ".gz"}) {
    auto path = directory / (name + ending);
    if (std::filesystem::exists(path)) return path;
  }
  throw InvalidArgument(
      fmt::format("{}: not found, nor with .gz added; put the four MNIST files into that directory",
                  (directory / name).string()));
}

}  // namespace

MnistDataset::MnistDataset(const std::filesystem::path& directory, Split split) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const auto image_file = find_file(directory, prefix + "-images-idx3-ubyte");
  const auto label_file = find_file(directory, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_file, 3);
  IdxArray labels = read_idx(label_file, 1);
  HORO_CHECK(images.shape.count() > 0,
             fmt::format("{}: holds no images; fetch it again", image_file.string()));
  HORO_CHECK(images.shape[0] == labels.shape[0],
             fmt::format("{}: has {} labels for the {} images of {}; take both files from the same "
                         "set",
                         label_file.string(), labels.shape[0], images.shape[0],
                         image_file.filename().string()));
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(),
                                  [](auto label) { return label > 9; });
  HORO_CHECK(wrong == labels.values.end(),
             fmt::format("{}: label {} of sample {} is not a digit; fetch it again",
                         label_file.string(), *wrong, wrong - labels.values.begin()));
  rows_ = images.shape[1];
  columns_ = images.shape[2];
  pixels_ = std::move(images.values);
  labels_ = std::move(labels.values);
}

std::int32_t MnistDataset::copy_sample(std::size_t index, std::span<float> values) const {
  check_copy(index, values.size());
  normalise_pixels({pixels_.data() + index * values.size(), values.size()}, kScale, values);
  return labels_[index];
}

}  // namespace horo::ops
