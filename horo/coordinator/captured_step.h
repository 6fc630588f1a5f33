#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/device/chunk_pipeline.h"
#include "horo/base/device/device.h"

namespace horo::coordinator {

/// A step of a plan as a graph of the device, with the exchange of the gradients in it. Events
/// around each launch say how far it is, since those in the graph say nothing. Used by one thread
/// at a time.
class CapturedStep {
 public:
  struct Launch {
    const device::Event *begun, *done;
  };

  /// Makes it of what `step` gives to the stream `native`, and to `pipeline` meanwhile, which is
  /// given nothing else; null: there is no exchange. Both outlive this, as `device` does. Throws
  /// what `step` throws, and DeviceError if a graph cannot be made of it.
  CapturedStep(device::Device& device, void* native, collectives::ChunkPipeline* pipeline,
               const std::function<void()>& step);

  /// Gives the stream one more step: with the number `number`, whose events are those of the step
  /// before the last. What the pipeline has been given comes before it, and what it will be given
  /// after.
  Launch launch(std::uint64_t number);
  /// The stream's.
  void* native() const { return stream_->native(); }
  /// Of the latest launch; null: there was none.
  const device::Event* done() const { return done_; }

 private:
  const std::unique_ptr<device::Stream> stream_;
  collectives::ChunkPipeline* const pipeline_;
  std::unique_ptr<device::Graph> graph_;
  std::array<std::unique_ptr<device::Event>, 2> begun_events_, done_events_;
  const device::Event* done_ = nullptr;
};

}  // namespace horo::coordinator
