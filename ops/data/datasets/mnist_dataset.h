#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "horo/base/tensor_view.h"
#include "ops/data/dataset.h"

namespace horo::ops {

/// The content of an IDX file of unsigned bytes, the format of MNIST.
struct IdxArray {
  Shape shape;                       ///< of the array
  std::vector<std::uint8_t> values;  ///< row-major, shape.count() of them
};

/// Reads an IDX file, plain or gzip, with `dimension_count` dimensions (images 3, labels 1). Throws
/// InvalidArgument, one line with the file, what is wrong and the remedy, if the file cannot be
/// read, is not an IDX file of bytes, has another number of dimensions, or has fewer or more bytes
/// than its header specifies.
IdxArray read_idx(const std::filesystem::path& path, std::size_t dimension_count);

/// The MNIST handwritten digits, or a data set in the same files (Fashion-MNIST): images [1, rows,
/// columns] of 10 classes, kept in memory as bytes. Immutable after construction.
class MnistDataset : public PixelImages {
 public:
  /// Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte` (kTrain), or the two `t10k-`
  /// files (kTest), from `directory`; each plain or with `.gz` added. Throws InvalidArgument, one
  /// line with the file, what is wrong with it and the remedy.
  MnistDataset(const std::filesystem::path& directory, Split split);

  std::size_t size() const override { return labels_.size(); }
  Shape sample_shape() const override { return {1, rows_, columns_}; }
  std::size_t class_count() const override { return 10; }
  std::vector<PixelScale> pixel_scales() const override;
  std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const override;

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace horo::ops
