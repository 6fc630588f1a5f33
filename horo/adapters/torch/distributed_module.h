#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>

#include "horo/gradient_sync.h"

namespace horo::libtorch {

/// The options of a DistributedModule.
struct DistributedModuleOptions {
  /// The options of the exchange, such as clip_norm, find_unused, weighted or wire; the same on all
  /// ranks. `gradients.name` is also the beginning of the names of other operations. Not with
  /// backward_passes_per_step (see no_sync()) and leave_as_reduced.
  GradientSyncOptions gradients;
  /// The GPU of this rank, if the parameters are in its memory: the result of open_gpu(). If null,
  /// the constructor opens it.
  std::shared_ptr<device::Device> gpu;
};

/// Trains a torch::nn::Module on all ranks of a Context. Every rank runs the same model on its own
/// samples, and the optimizer of every rank applies the gradients that are averaged over the ranks.
///
///     Net net;
///     horo::libtorch::DistributedModule distributed(ctx, *net);
///     torch::optim::SGD optimizer(net->parameters(), 0.1);
///     for (auto& batch : batches_of_this_rank) {
///       optimizer.zero_grad();
///       torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target).backward();
///       distributed.wait();
///       optimizer.step();
///     }
///
/// The constructor copies the parameters and buffers of rank 0 to all ranks. It adds a hook to each
/// parameter that requires a gradient. When backward() has accumulated a gradient, the hook moves
/// it into memory that all ranks of a node share, makes `.grad` refer to this memory, and marks the
/// gradient as ready. While backward() continues, the GradientSync exchanges the gradients that are
/// ready. wait() blocks until all gradients are averaged.
///
/// zero_grad() with its default (set_to_none) is the fastest: autograd then need not add to the old
/// gradient. zero_grad(false) works too.
///
/// Each backward() must be followed by wait(), unless it runs in a no_sync() scope, or reaches none
/// of the parameters of the previous backward(). Every parameter must get a gradient in each step,
/// unless gradients.find_unused is set. Parameters that are frozen (requires_grad is false) when
/// this object is made take no part in the exchange.
///
/// Each rank seeds its own random numbers: torch::manual_seed(seed + rank) makes the ranks draw
/// different dropout masks.
///
/// All functions must be called by one thread at a time, and not while backward() runs. The Context
/// must outlive this object. The destructor removes the hooks and resets the gradients of the
/// parameters.
///
/// GPUs: if the parameters are in GPU memory, the exchange follows the work of the current stream
/// of torch, and wait() makes later work of the current stream follow the exchange. The host does
/// not wait.
class DistributedModule {
  struct Impl;

 public:
  /// Collective. All ranks must pass modules with the same parameters and buffers, and the same
  /// options. Blocks. Keeps the parameters, not the module.
  ///
  /// Throws InvalidArgument on this rank if no parameter requires a gradient, if a parameter is
  /// sparse or of a type that horo does not support, or if the parameters are on several devices.
  /// Throws MismatchError on all ranks if the parameters or buffers differ in name, shape or type.
  /// Otherwise throws as GradientSync does.
  DistributedModule(Context& context, ::torch::nn::Module& module,
                    const DistributedModuleOptions& options = {});
  /// The other object must then only be assigned or destroyed.
  DistributedModule(DistributedModule&&) noexcept;
  /// Removes the hooks of this object first, as the destructor does.
  DistributedModule& operator=(DistributedModule&&) noexcept;
  ~DistributedModule();

  /// Ends a step: blocks until the gradients are averaged over all ranks, or reduced as
  /// gradients.op says. Then `.grad` of every parameter is the same on all ranks. In a no_sync()
  /// scope, does nothing. On a GPU, only enqueues; see the class.
  ///
  /// With gradients.find_unused, parameters without a gradient on this rank count as zero. Their
  /// `.grad` is then the average over all ranks. If no rank has a gradient of a parameter, its
  /// `.grad` stays undefined, and optimizers skip the parameter.
  ///
  /// Throws InvalidArgument, with the first names, if parameters have no gradient and find_unused
  /// is not set. Throws errors of the exchange as GradientSync::wait() does.
  void wait();
  /// The report of the latest step: norm, clipping, unused parameters. On a GPU, waits for the
  /// step. Throws as GradientSync::report() does.
  const StepReport& report();

  /// A scope in which backward() only accumulates gradients.
  class NoSync {
   public:
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync();

   private:
    friend class DistributedModule;
    explicit NoSync(Impl& impl);
    Impl& impl_;
  };
  /// Begins a scope without exchange, for gradient accumulation:
  ///
  ///     { const auto pause = distributed.no_sync(); loss_of(first).backward(); }
  ///     loss_of(second).backward();
  ///     distributed.wait();
  ///
  /// Any number of backward() may run in the scope. The step ends with the first wait() after the
  /// scope. Its gradients are the sums of all passes; scale the loss of each pass for an average.
  /// Ranks may run different numbers of passes. Scopes may be nested. This object must outlive the
  /// scope. Throws InvalidArgument if this step has already begun to exchange gradients.
  [[nodiscard]] NoSync no_sync();

  /// Takes part in the steps of the other ranks without data until all ranks have called join();
  /// see GradientSync::join(). Requires gradients.weighted. `after_step` is called after each step
  /// with the averaged gradients in `.grad`; it should run the optimizer. Collective.
  int join(const std::function<void()>& after_step);

  /// Copies the buffers of rank 0, such as the running statistics of batch normalization, to all
  /// ranks. Ranks update these buffers with their own samples, so they differ after training steps,
  /// except for SyncBatchNorm. Call it before evaluation or a checkpoint. Collective. Blocks.
  void broadcast_buffers();

  /// The exchange, for set_weight(), unused() and other functions that this class does not repeat.
  /// Its gradients have the order and the names of named_parameters(). Do not call ready() or
  /// wait().
  GradientSync& gradient_sync();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo::libtorch
