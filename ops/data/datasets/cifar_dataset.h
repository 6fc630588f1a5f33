#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ops/data/dataset.h"

namespace horo::ops {

/// The CIFAR-10 photographs, or a part of them, from the files of the "binary version": colour
/// images [3, 32, 32] of 10 classes, kept in memory as bytes and normalised by channel. Immutable
/// after construction. Source of the data and the format: Krizhevsky, "Learning multiple layers of
/// features from tiny images" (2009).
class CifarDataset : public PixelImages {
 public:
  static constexpr std::size_t kChannels = 3;                        ///< red, green, blue
  static constexpr std::size_t kSide = 32;                           ///< pixels
  static constexpr std::size_t kPixels = kChannels * kSide * kSide;  ///< values of an image
  /// Bytes of a record: the label, then the pixels of the red, the green and the blue channel, row
  /// by row.
  static constexpr std::size_t kRecord = 1 + kPixels;

  /// Reads the files data_batch*.bin (kTrain) or test_batch*.bin (kTest) of `directory`, plain or
  /// with ".gz" added, in the order of their names. If a file exists in both forms, the plain one
  /// is read. Throws InvalidArgument, one line with the file, what is wrong with it and the remedy.
  CifarDataset(const std::filesystem::path& directory, Split split);

  std::size_t size() const override { return records_.size() / kRecord; }
  Shape sample_shape() const override { return {kChannels, kSide, kSide}; }
  std::size_t class_count() const override { return 10; }
  std::vector<PixelScale> pixel_scales() const override;
  std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const override;

 private:
  void append(const std::filesystem::path& file);

  std::vector<std::uint8_t> records_;
};

}  // namespace horo::ops
