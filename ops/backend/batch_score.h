#pragma once

#include <cstdint>
#include <optional>

namespace horo::ops {

class Tensor;

/// The comparison of a batch with its targets, in the memory of a backend.
struct BatchScore {
  double loss = 0;            ///< sum over the targets, divided by LossArguments::normaliser
  std::uint64_t correct = 0;  ///< targets whose class has the largest logit; the first of equals
  std::uint64_t counted = 0;  ///< targets that are not ignored; values for the squared error
};

/// The options of CrossEntropy.
struct CrossEntropyOptions {
  /// In [0, 1): the part of the target distribution that is spread evenly over all classes. Source:
  /// Szegedy et al., "Rethinking the Inception architecture" (2015).
  float label_smoothing = 0;
  /// Targets of this class add nothing to the loss and its gradient.
  std::optional<std::int32_t> ignored{};
};

/// Where a loss stores its results, and how it scales them.
struct LossArguments {
  double normaliser = 1;        ///< of the loss and its gradient
  Tensor* gradient = nullptr;   ///< by the output of the model, in its type; may share its memory
  BatchScore* score = nullptr;  ///< in the memory of the backend
  float* loss = nullptr;        ///< a second destination of the loss, or null
  /// An additional factor of the gradient in the memory of a device, or null: none.
  const float* loss_scale = nullptr;
};

}  // namespace horo::ops
