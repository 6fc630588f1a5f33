#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/dataset.h"

namespace horo::ops {

/// Encoded images with labels. All members may be called from several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// The number of images.
  virtual std::size_t size() const = 0;
  /// The names of the classes, by label.
  virtual const std::vector<std::string>& classes() const = 0;
  /// The label of image `index`.
  virtual std::int32_t label(std::size_t index) const = 0;
  /// The file, for error messages.
  virtual std::string name(std::size_t index) const = 0;
  /// Replaces `file` by the bytes of an image file. Throws Error, with the file, if it cannot.
  virtual void read(std::size_t index, std::vector<std::byte>& file) const = 0;
};

/// A size in pixels.
struct ImageSize {
  std::size_t height = 0;  ///< pixels
  std::size_t width = 0;   ///< pixels
};

/// The options of an ImageDataset.
struct ImageOptions {
  /// 1 (grey) or 3 (colours); other images are converted.
  std::size_t channels = 3;
  /// Images of other sizes are scaled to cover this size, and cut around the centre. Unset: the
  /// size of the first image; an image of another size is an error.
  std::optional<ImageSize> size{};
  /// One per channel; empty: the usual values of photographs (those of ImageNet), or 0.5 and 0.5
  /// for grey images.
  std::vector<PixelScale> scales{};
};

/// PNG and JPEG images, decoded each time they are read, by the threads of the DataLoader.
class ImageDataset : public PixelImages {
 public:
  /// Throws InvalidArgument for options that are not possible, and Error, with the file, if the
  /// first image cannot be read and no size is set.
  ImageDataset(std::unique_ptr<const ImageSource> source, const ImageOptions& options);

  std::size_t size() const override { return source_->size(); }
  Shape sample_shape() const override { return {channels_, size_.height, size_.width}; }
  std::size_t class_count() const override { return source_->classes().size(); }
  /// The names of the classes, by label.
  const std::vector<std::string>& classes() const { return source_->classes(); }
  std::string name_of(std::size_t index) const override { return source_->name(index); }
  std::vector<PixelScale> pixel_scales() const override { return scales_; }
  std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const override;

 private:
  std::unique_ptr<const ImageSource> source_;
  std::size_t channels_;
  bool is_scaled_;
  std::vector<PixelScale> scales_;
  ImageSize size_;
};

/// The images of a folder with one sub-folder per class; see list_labelled_files().
class ImageFolderDataset : public ImageDataset {
 public:
  /// Throws as list_labelled_files() and ImageDataset do.
  explicit ImageFolderDataset(const std::filesystem::path& folder,
                              const ImageOptions& options = {});
};

/// The images of a directory that `hororun pack` has written.
class PackedDataset : public ImageDataset {
 public:
  /// Throws as RecordReader and ImageDataset do.
  explicit PackedDataset(const std::filesystem::path& directory, const ImageOptions& options = {});
};

/// Opens either, whichever the directory is.
std::unique_ptr<ImageDataset> open_images(const std::filesystem::path& directory,
                                          const ImageOptions& options = {});

}  // namespace horo::ops
