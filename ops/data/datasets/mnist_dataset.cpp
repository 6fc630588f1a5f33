#include "ops/data/datasets/mnist_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "horo/base/error.h"
#include "ops/data/dataset.h"
#include "ops/data/file_bytes.h"

namespace horo::ops {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;

// Numbers of the header are big-endian.
std::uint32_t read_number(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t dimension_count) {
  IdxArray array{{}, read_file_bytes(path)};
  auto& bytes = array.values;
  const std::size_t header = 4 + 4 * dimension_count;
  const auto require = [&](bool holds, const std::string& reason) {
    HORO_CHECK(holds, fmt::format("{}: {}", path.string(), reason));
  };
  require(
      bytes.size() >= 4,
      fmt::format("has only {} bytes, an IDX file begins with 4 bytes of magic number; fetch it "
                  "again",
                  bytes.size()));
  const std::uint32_t expected =
      std::uint32_t{kUnsignedBytes} << 8 | static_cast<std::uint32_t>(dimension_count);
  require(read_number(bytes.data()) == expected,
          fmt::format("is not an IDX file of bytes with {} dimension(s): magic number {:#010x}, "
                      "expected {:#010x}; check that the file is the right one",
                      dimension_count, read_number(bytes.data()), expected));
  require(bytes.size() >= header,
          fmt::format("has only {} bytes, its header alone has {}; fetch it again", bytes.size(),
                      header));
  std::vector<std::size_t> dimensions;
  // The product stops growing once it exceeds the size of the file. A damaged header can therefore
  // not make it overflow.
  std::size_t promised = 1;
  for (std::size_t axis = 0; axis < dimension_count; ++axis) {
    dimensions.push_back(read_number(bytes.data() + 4 + 4 * axis));
    if (promised <= bytes.size()) promised *= dimensions.back();  // else: already too large
  }
  array.shape = Shape(std::move(dimensions));
  require(header + promised == bytes.size(),
          fmt::format("its header specifies {} of one byte, but {} bytes follow it; fetch it again",
                      array.shape.to_string(), bytes.size() - header));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return array;
}

namespace {

// Mean and standard deviation of the training images' pixels, as fractions of 255.
constexpr PixelScale kMnistScale{.mean = 0.1307f, .deviation = 0.3081f};

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

std::vector<PixelScale> MnistDataset::pixel_scales() const { return {kMnistScale}; }

std::int32_t MnistDataset::copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const {
  check_copy(index, pixels.size());
  std::copy_n(pixels_.data() + index * pixels.size(), pixels.size(), pixels.data());
  return labels_[index];
}

}  // namespace horo::ops
