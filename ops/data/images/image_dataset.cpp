#include "ops/data/images/image_dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "ops/data/images/image_decoder.h"
#include "ops/data/records/labelled_files.h"
#include "ops/data/records/read_file.h"
#include "ops/data/records/record_reader.h"

namespace horo::ops {
namespace {

class FolderSource : public ImageSource {
 public:
  explicit FolderSource(const std::filesystem::path& folder)
      : files_(list_labelled_files(folder)) {}
  std::size_t size() const override { return files_.files.size(); }
  const std::vector<std::string>& classes() const override { return files_.classes; }
  std::int32_t label(std::size_t index) const override { return files_.files[index].label; }
  std::string name(std::size_t index) const override { return files_.path_of(index).string(); }
  void read(std::size_t index, std::vector<std::byte>& file) const override {
    read_file(files_.path_of(index), file);
  }

 private:
  LabelledFiles files_;
};

class PackedSource : public ImageSource {
 public:
  explicit PackedSource(const std::filesystem::path& directory) : reader_(directory) {}
  std::size_t size() const override { return reader_.size(); }
  const std::vector<std::string>& classes() const override { return reader_.classes(); }
  std::int32_t label(std::size_t index) const override { return reader_.label(index); }
  std::string name(std::size_t index) const override { return reader_.describe(index); }
  void read(std::size_t index, std::vector<std::byte>& file) const override {
    reader_.read(index, file);
  }

 private:
  RecordReader reader_;
};

// Source: the statistics that torchvision uses for models of ImageNet.
std::vector<PixelScale> usual_scales(std::size_t channels) {
  if (channels == 1) return {{.mean = 0.5f, .deviation = 0.5f}};
  return {{.mean = 0.485f, .deviation = 0.229f},
          {.mean = 0.456f, .deviation = 0.224f},
          {.mean = 0.406f, .deviation = 0.225f}};
}

Image read_image(const ImageSource& source, std::size_t index, std::size_t channels,
                 std::size_t least_side) {
  thread_local std::vector<std::byte> file;
  source.read(index, file);
  try {
    return decode_image(file, channels, least_side);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", source.name(index), error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", source.name(index), error.what()));
  }
}

}  // namespace

ImageDataset::ImageDataset(std::unique_ptr<const ImageSource> source, const ImageOptions& options)
    : source_(std::move(source)),
      channels_(options.channels),
      is_scaled_(options.size.has_value()),
      scales_(options.scales.empty() ? usual_scales(options.channels) : options.scales) {
  HORO_CHECK(channels_ == 1 || channels_ == 3,
             fmt::format("images have 1 or 3 channels, not {}", channels_));
  HORO_CHECK(scales_.size() == channels_,
             fmt::format("{} scales of pixels for {} channels", scales_.size(), channels_));
  HORO_CHECK(source_->size() > 0, "the data set has no images");
  if (is_scaled_) {
    size_ = *options.size;
    HORO_CHECK(
        size_.height > 0 && size_.width > 0,
        fmt::format("images of {} x {} pixels; choose at least 1 x 1", size_.height, size_.width));
  } else {
    const Image first = read_image(*source_, 0, channels_, 0);
    size_ = {first.height, first.width};
  }
}

std::int32_t ImageDataset::copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const {
  check_copy(index, pixels.size());
  Image image =
      read_image(*source_, index, channels_, is_scaled_ ? std::max(size_.height, size_.width) : 0);
  if (is_scaled_) image = scaled_to_cover(image, size_.height, size_.width);
  if (image.height != size_.height || image.width != size_.width)
    throw Error(
        fmt::format("{}: has {} x {} pixels, the first image {} x {}; set a size to which "
                    "all images are scaled",
                    source_->name(index), image.height, image.width, size_.height, size_.width));
  const std::size_t plane = size_.height * size_.width;
  for (std::size_t c = 0; c < channels_; ++c)
    for (std::size_t i = 0; i < plane; ++i) pixels[c * plane + i] = image.pixels[i * channels_ + c];
  return source_->label(index);
}

ImageFolderDataset::ImageFolderDataset(const std::filesystem::path& folder,
                                       const ImageOptions& options)
    : ImageDataset(std::make_unique<FolderSource>(folder), options) {}

PackedDataset::PackedDataset(const std::filesystem::path& directory, const ImageOptions& options)
    : ImageDataset(std::make_unique<PackedSource>(directory), options) {}

std::unique_ptr<ImageDataset> open_images(const std::filesystem::path& directory,
                                          const ImageOptions& options) {
  if (is_packed(directory)) return std::make_unique<PackedDataset>(directory, options);
  return std::make_unique<ImageFolderDataset>(directory, options);
}

}  // namespace horo::ops
