#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/device/chunk_pipeline.h"
#include "horo/device/device.h"

namespace horo::plan {

/// A step of a plan as a device graph that includes the exchange of the gradients. Each launch
/// records one event before the graph and one event after the graph, because the host cannot query
/// events inside a graph. One thread at a time may call the functions. Other threads may query the
/// events.
class CapturedStep {
 public:
  /// The events of one launch: `begun` precedes the graph, and `done` follows it.
  struct Launch {
    const device::Event *begun, *done;
  };

  /// Captures the work that `step` enqueues on the stream `native` and on `pipeline`. During the
  /// capture, only `step` may enqueue work on `pipeline`. `pipeline` is null if only one rank takes
  /// part. `device`, the stream and the pipeline must outlive this object. Rethrows exceptions of
  /// `step`. Throws DeviceError if the work cannot be captured.
  CapturedStep(device::Device& device, void* native, collectives::ChunkPipeline* pipeline,
               const std::function<void()>& step);

  /// Enqueues the graph on the stream, as step `number` of the plan. Orders the graph after all
  /// earlier work and before all later work of the pipeline. Two launches use the same events if
  /// their numbers are both even or both odd.
  Launch launch(std::uint64_t number);
  /// The native handle of the stream.
  void* native() const { return stream_->native(); }
  /// The event after the latest launch. Null if there was no launch.
  const device::Event* done() const { return done_; }

 private:
  const std::unique_ptr<device::Stream> stream_;
  collectives::ChunkPipeline* const pipeline_;
  std::unique_ptr<device::Graph> graph_;
  std::array<std::unique_ptr<device::Event>, 2> begun_events_, done_events_;
  const device::Event* done_ = nullptr;
};

}  // namespace horo::plan
