#pragma once

#include "ops/kernels/reference/values.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::reference {

/// One value per channel each; the variance is biased (divided by the number of values).
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
/// Through batch_norm with the input's own statistics.
BatchNormGradients batch_norm_gradients(const ImageBatch& shape, const Values& input,
                                        const Values& scale, const Values& output_gradient,
                                        double epsilon);

}  // namespace horo::ops::reference
