#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ops/data/dataset.h"

namespace horo::ops {

/// The MNIST handwritten digits, or a data set in the same files (Fashion-MNIST): images [1, rows,
/// columns] of 10 classes, held in memory as bytes. Not changed after construction.
class MnistDataset : public Dataset {
 public:
  /// Reads `train-images-idx3-ubyte` and `train-labels-idx1-ubyte` (kTrain), or the two `t10k-`
  /// files (kTest), from `directory`; each plain or with `.gz` added. Throws InvalidArgument, one
  /// line that names the file, what is wrong with it and what to do.
  MnistDataset(const std::filesystem::path& directory, Split split);

  std::size_t size() const override { return labels_.size(); }
  Shape sample_shape() const override { return {1, rows_, columns_}; }
  std::size_t class_count() const override { return 10; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override;

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace horo::ops
