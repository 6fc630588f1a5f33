#pragma once

#include <memory>

namespace horo {

class Runtime;
namespace coordinator {
class CapturedStep;
class DeviceRunner;
}  // namespace coordinator

/// A training step as a graph of the device, with the exchange of its gradients in it: what
/// DeviceGradientSync::capture() makes. What the step computes with stays where it is: other data
/// is copied to the same place, on the stream, before each launch. Move-only; used by one thread at
/// a time, which is that of the plan's wait_on().
class DeviceStepGraph {
 public:
  DeviceStepGraph(DeviceStepGraph&&) noexcept;
  DeviceStepGraph& operator=(DeviceStepGraph&&) noexcept;
  /// Waits until the device is through with its launches. While graphs live, what their
  /// DeviceGradientSync has on the device stays too.
  ~DeviceStepGraph();

  /// Gives one more step to the stream of capture(). Collective: NCCL wants an exchange to be in a
  /// graph on all ranks or on none. Steps without a graph may come between. Waits until the step
  /// before the last is done, not for the device otherwise. HORO_TIMEOUT is for the whole graph,
  /// since the device is at it. Throws InvalidArgument if gradients are marked and their step has
  /// not ended, or if the stream is being captured; otherwise as DeviceGradientSync::wait_on():
  /// errors of earlier steps.
  void launch();
  /// Waits until the device is through with the latest launch. Throws as
  /// DeviceGradientSync::wait() if it, or a step before it, failed.
  void wait();

 private:
  friend class DeviceGradientSync;
  class Impl;
  DeviceStepGraph(std::shared_ptr<Runtime> runtime,
                  std::shared_ptr<coordinator::DeviceRunner> runner,
                  std::unique_ptr<coordinator::CapturedStep> step);
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
