#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>
#include <memory>
#include <string>

#include "horo/context.h"

namespace horo::libtorch {

/// How the ranks of a SyncBatchNorm exchange statistics.
struct BatchNormExchange {
  std::reference_wrapper<Context> context;  ///< must outlive the layer and its graphs
  /// The beginning of the names of the operations, the same on all ranks and different for each
  /// layer. If empty, the operations have no names, and all ranks must submit all operations
  /// without names in the same order.
  std::string name{};
  /// The result of open_gpu() if the layer is in the memory of a GPU.
  std::shared_ptr<device::Device> gpu{};
};

/// Batch normalization over the samples of all ranks. Use it in place of
/// torch::nn::BatchNorm1d, 2d or 3d where the batch of one rank is too small for good statistics:
///
///     torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 64, 3)};
///     horo::libtorch::SyncBatchNorm norm{horo::libtorch::BatchNormExchange{ctx, "norm1"}, 64};
///
/// Parameters and buffers have the names of BatchNorm2d, so checkpoints fit both. In training, the
/// mean and the variance are those of all samples of all ranks; ranks may have different numbers of
/// samples, also none. Running statistics are equal on all ranks. In evaluation, and with one rank,
/// it computes and exchanges the same as BatchNorm2d.
///
/// In training, forward() and its backward pass are collective and block: all ranks must run the
/// layers in the same order. Cost: forward() gathers 8 * (2 * features + 1) bytes from each rank;
/// backward() sums 2 * features values. The context must outlive the layer and its graphs.
///
/// The local means and variances are combined as in Chan, Golub and LeVeque, "Updating formulae and
/// a pairwise algorithm for computing sample variances" (1979), in float64.
class SyncBatchNormImpl
    : public ::torch::nn::NormImplBase<1, SyncBatchNormImpl, ::torch::nn::BatchNormOptions> {
 public:
  /// A layer with the options of torch::nn::BatchNorm2d. Not collective.
  SyncBatchNormImpl(BatchNormExchange exchange, const ::torch::nn::BatchNormOptions& given);

  /// `input`: [samples, features, ...], of a floating point type. Returns a tensor of this shape.
  /// Throws InvalidArgument if the shape does not fit. Throws as Context::allgather() and
  /// Context::allreduce() do.
  at::Tensor forward(const at::Tensor& input);
  /// Writes the name and the options of the layer to `stream`.
  void pretty_print(std::ostream& stream) const override;

 protected:
  /// Throws InvalidArgument unless `input` is as forward() requires.
  void _check_input_dim(const at::Tensor& input) override;

 private:
  double count_batch();
  BatchNormExchange exchange_;
};
/// The holder of a SyncBatchNormImpl, as torch::nn::BatchNorm2d is one of its implementation.
TORCH_MODULE(SyncBatchNorm);

}  // namespace horo::libtorch
