#pragma once

#include <memory>

namespace horo {

class Runtime;
namespace plan {
class CapturedStep;
class DeviceRunner;
}  // namespace plan

/// A training step as a graph of the device, with the exchange of its gradients, made by
/// DeviceGradientSync::capture(). The step always uses the same memory: copy new data there, on the
/// stream of capture(), before each launch. Move-only. Used by one thread at a time, the one that
/// calls DeviceGradientSync::wait_on().
class DeviceStepGraph {
 public:
  DeviceStepGraph(DeviceStepGraph&&) noexcept;
  DeviceStepGraph& operator=(DeviceStepGraph&&) noexcept;
  /// Waits until the device has completed the launches. The device resources of the
  /// DeviceGradientSync stay until its last graph is destroyed.
  ~DeviceStepGraph();

  /// Enqueues one more step on the stream of capture(). Collective: an NCCL exchange must be in a
  /// graph on all ranks or on none. Steps without a graph may run between launches. Blocks until
  /// the step before the previous one is complete. HORO_TIMEOUT applies to the whole graph, from
  /// its start on the device. Throws InvalidArgument if gradients are marked in an incomplete step,
  /// or if the stream is in a capture. Throws errors of earlier steps as
  /// DeviceGradientSync::wait_on() does.
  void launch();
  /// Blocks until the device has completed the latest launch. Throws as DeviceGradientSync::wait()
  /// does if it or an earlier step failed.
  void wait();

 private:
  friend class DeviceGradientSync;
  class Impl;
  DeviceStepGraph(std::shared_ptr<Runtime> runtime, std::shared_ptr<plan::DeviceRunner> runner,
                  std::unique_ptr<plan::CapturedStep> step);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
