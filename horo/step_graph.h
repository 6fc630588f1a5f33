#pragma once

#include <memory>

namespace horo {

class Runtime;
namespace plan {
class CapturedStep;
class BucketScheduler;
}  // namespace plan

/// A training step as a graph of the device, with the exchange of its gradients, made by
/// GradientSync::capture(). Each launch reads the memory that the captured step read. The
/// program must therefore copy new data to that memory, on the stream of capture(), before each
/// launch. Move-only. Only the thread that calls GradientSync::wait_on() may use a graph.
class StepGraph {
 public:
  /// The other object must then only be assigned or destroyed.
  StepGraph(StepGraph&&) noexcept;
  /// Waits for the launches of this object first, as the destructor does.
  StepGraph& operator=(StepGraph&&) noexcept;
  /// Waits until the device has completed the launches. The device resources of the GradientSync
  /// stay allocated until its last graph is destroyed.
  ~StepGraph();

  /// Enqueues one more step on the stream of capture(). Collective: in each step, either all ranks
  /// must launch a graph, or none. NCCL requires this. Steps without a graph may run between
  /// launches. With several ranks, blocks until the device has completed the exchange of the step
  /// before the previous one. HORO_TIMEOUT applies to the whole graph, from its start on the
  /// device.
  ///
  /// Throws InvalidArgument if gradients are marked in an incomplete step, or if the stream is in a
  /// capture. Throws errors of earlier steps as GradientSync::wait_on() does.
  void launch();
  /// Blocks until the device has completed the latest launch of this graph. If that launch or an
  /// earlier step failed, throws as GradientSync::wait() does.
  void wait();

 private:
  friend class GradientSync;
  class Impl;
  StepGraph(std::shared_ptr<Runtime> runtime, std::shared_ptr<plan::BucketScheduler> scheduler,
            std::unique_ptr<plan::CapturedStep> step);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
