#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/device/chunk_pipeline.h"
#include "horo/device/device.h"

namespace horo::plan {

/// A step of a plan as a device graph that includes the exchange of the gradients. Each launch
/// records one event before the graph and one event after the graph, because events inside a graph
/// cannot be queried. Used by one thread at a time.
class CapturedStep {
 public:
  struct Launch {
    const device::Event *begun, *done;
  };

  /// Captures the work that `step` enqueues on the stream `native` and on `pipeline`. The caller
  /// enqueues no other work on `pipeline` during the capture. `pipeline` is null if there is no
  /// exchange. `device`, the stream and the pipeline must outlive this object. Rethrows exceptions
  /// of `step`. Throws DeviceError if the work cannot be captured.
  CapturedStep(device::Device& device, void* native, collectives::ChunkPipeline* pipeline,
               const std::function<void()>& step);

  /// Enqueues step `number` on the stream, after all earlier and before all later work of the
  /// pipeline. Launches whose numbers are both even or both odd use the same two events.
  Launch launch(std::uint64_t number);
  /// The native handle of the stream.
  void* native() const { return stream_->native(); }
  /// The event at the end of the latest launch. Null if there was no launch.
  const device::Event* done() const { return done_; }

 private:
  const std::unique_ptr<device::Stream> stream_;
  collectives::ChunkPipeline* const pipeline_;
  std::unique_ptr<device::Graph> graph_;
  std::array<std::unique_ptr<device::Event>, 2> begun_events_, done_events_;
  const device::Event* done_ = nullptr;
};

}  // namespace horo::plan
