#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "ops/optim/optimizer.h"
#include "ops/train/step/gradient_block.h"
#include "ops/train/step/step_outcome.h"

namespace horo::ops {

struct DeviceTraining;
struct ExchangeOptions;

/// What a checkpoint keeps of an UpdateMethod on a rank, besides the agreed parameters and the
/// state of the optimizer of rank 0.
struct MethodState {
  /// Of the options on which the tensors depend. Empty: there is no state.
  std::string description{};
  std::vector<NamedTensor> tensors{};  ///< borrow memory of the method or of the model
  std::vector<GradientSync*> syncs{};  ///< whose state of compression belongs to it
};

/// How the ranks combine their gradients in host memory and update the parameters, in place of the
/// average gradient and the same update on every rank that TrainStep makes. Per step, TrainStep
/// calls ready() for each gradient and for the scalars, then exchange(), then update(). All ranks
/// call the functions at the same steps. Used from one thread.
class UpdateMethod {
 public:
  virtual ~UpdateMethod() = default;

  /// A training step begins, after `done` steps since the begin of training. Ends show_agreed().
  virtual void begin_step(std::uint64_t /*done*/) {}
  /// Gradient `index` of this rank is final, the sum of all passes of the step. The scalars have
  /// the index after the last parameter.
  virtual void ready(std::size_t index) = 0;
  /// Blocks until this step has exchanged what it exchanges.
  virtual void exchange() = 0;
  /// Updates the parameters of this rank.
  virtual void update() = 0;
  /// The outcomes that have become known since the previous call, in the order of the steps. With
  /// `all`, blocks until those of all steps are known. Collective.
  virtual std::vector<StepOutcome> outcomes(bool all) = 0;
  /// Gives the model the parameters that all ranks agree on, for an evaluation or a checkpoint,
  /// until begin_step() or finish(). Does nothing if the ranks always agree.
  virtual void show_agreed() {}
  /// Blocks until exchanges in flight are complete. Ends show_agreed(). All ranks call it after the
  /// same step. The tensors are valid until the next call of another function.
  virtual MethodState state() { return {}; }
  /// The caller has replaced the values of the tensors of state(), before the first step, with
  /// those of another run.
  virtual void restored() {}
  /// The elements of each bucket whose gradients are reduced and scattered, and whose parameters
  /// are gathered, in every step. Empty: the method has no such buckets.
  virtual std::vector<std::size_t> bucket_elements() const { return {}; }
  /// The savings of Compression so far, if the method compresses.
  virtual CompressionFigures compression() { return {}; }
  /// Ends training: all ranks then have equal parameters, and the optimizer has a state for each
  /// whole parameter, of this rank. No other function may be called afterwards. Collective; blocks.
  virtual void finish() = 0;
};

/// Whether `options` choose another method than that of TrainStep.
bool has_update_method(const ExchangeOptions& options);

/// Throws InvalidArgument, one line, if a method cannot be combined with other options.
void check_update_method(const ExchangeOptions& options, const DeviceTraining& training);

/// The chosen method; null for that of TrainStep. Borrows all arguments. `scalar_sync` exchanges
/// `scalars` of this rank, in place. Collective. Throws InvalidArgument if the optimizer does not
/// support the method.
std::unique_ptr<UpdateMethod> make_update_method(Context& context, Optimizer& optimizer,
                                                 GradientSync& scalar_sync, StepScalars& scalars,
                                                 const ExchangeOptions& options);

}  // namespace horo::ops
