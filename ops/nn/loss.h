#pragma once

#include <cstddef>

#include "ops/backend/backend.h"

namespace horo::ops {

/// Compares the output of a model with the targets of a batch, in the memory of a backend. The
/// first dimension of both is the batch. Has no state: one object may serve several models and
/// threads.
class Loss {
 public:
  virtual ~Loss() = default;

  /// Computes the loss and its gradient by `output`, which may get the memory of `output`. Divides
  /// both by `samples` times the targets per sample: the mean over the batch if `samples` is its
  /// size. If ranks have batches of different sizes and gradients are averaged, `samples` is the
  /// global batch / ranks. Stores the score, and the loss also at `loss` unless that is null. On a
  /// device, multiplies the gradient by `loss_scale` unless that is null. Throws InvalidArgument if
  /// the shapes do not match.
  Tensor backward(Backend& backend, Tensor output, const Tensor& targets, double samples,
                  BatchScore* score, float* loss = nullptr,
                  const float* loss_scale = nullptr) const;
  /// Stores the score: the sum of the losses, for evaluation.
  void score(Backend& backend, const Tensor& output, const Tensor& targets,
             BatchScore* score) const;

  /// Whether the score counts correct targets.
  virtual bool has_classes() const { return false; }
  /// "CrossEntropy with ...": the options that must be equal on all ranks.
  virtual std::string describe() const = 0;

 private:
  /// Throws InvalidArgument if the shapes do not match. Returns the number of targets per sample.
  virtual std::size_t check(const Tensor& output, const Tensor& targets) const = 0;
  virtual void compare(Backend& backend, const Tensor& output, const Tensor& targets,
                       const LossArguments& to) const = 0;
};

/// Softmax and cross-entropy. Targets are int32 classes: one per sample or, for token models, of
/// any shape [batch, ...]; the output has `classes` logits for each of them in this order. The mean
/// is over all targets, including ignored ones, so that the loss does not depend on how a batch is
/// divided between ranks.
class CrossEntropy : public Loss {
 public:
  /// Throws InvalidArgument for a label smoothing out of range.
  explicit CrossEntropy(const CrossEntropyOptions& options = {});
  bool has_classes() const override { return true; }
  std::string describe() const override;

 private:
  std::size_t check(const Tensor& output, const Tensor& targets) const override;
  void compare(Backend& backend, const Tensor& output, const Tensor& targets,
               const LossArguments& to) const override;

  CrossEntropyOptions options_;
};

/// The mean of (output - target)^2 over all values. Targets are float32 and as many as the outputs.
class MeanSquaredError : public Loss {
 public:
  std::string describe() const override { return "MeanSquaredError"; }

 private:
  std::size_t check(const Tensor& output, const Tensor& targets) const override;
  void compare(Backend& backend, const Tensor& output, const Tensor& targets,
               const LossArguments& to) const override;
};

}  // namespace horo::ops
