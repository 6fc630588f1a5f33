#pragma once

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// Statistics with one value per channel. The variance is biased: the sum is divided by the number
/// of values.
struct ChannelStatistics {
  Values mean;
  Values variance;
};
ChannelStatistics channel_statistics(const ImageBatch& shape, const Values& input);

/// scale * (input - mean) / sqrt(variance + epsilon) + shift, per channel.
Values batch_norm(const ImageBatch& shape, const Values& input, const Values& scale,
                  const Values& shift, const ChannelStatistics& statistics, double epsilon);

struct BatchNormGradients {
  Values input;
  Values scale;
  Values shift;
};
/// The gradients of batch_norm with the statistics of the input itself.
BatchNormGradients batch_norm_gradients(const ImageBatch& shape, const Values& input,
                                        const Values& scale, const Values& output_gradient,
                                        double epsilon);

}  // namespace horo::ops::reference
