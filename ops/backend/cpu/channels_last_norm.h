#pragma once

#include <cstddef>
#include <vector>

#include "ops/backend/operations.h"
#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// Batch normalisation of images with channels last, for one fixed shape, fused with an addition
/// and a ReLU. Arrays are float32 in host memory. Reads the images twice and writes them once.
/// Sums are over chunks of rows that do not depend on the number of threads, so results do not
/// either. Used from one thread at a time.
class ChannelsLastNorm : public BatchNormOperation {
 public:
  ChannelsLastNorm(const ImageBatch& shape, float epsilon);

  bool can_fuse() const override { return true; }
  void forward_training(const BatchNormTraining& arrays) override;
  void forward_inference(const BatchNormInference& arrays) override;
  void backward(const BatchNormBackward& arrays) override;

 private:
  /// Two sums for each channel, by chunk: [chunks][2][channels].
  std::vector<float> sums_;
  std::size_t rows_, channels_;
  float epsilon_;
};

}  // namespace horo::ops::cpu
