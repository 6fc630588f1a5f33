#include "horo/plan/device/captured_step.h"

namespace horo::plan {
namespace {

// Calls end_capture() of the pipeline, even if begin_capture() or the step throws.
class PipelineInCapture {
 public:
  explicit PipelineInCapture(collectives::ChunkPipeline* pipeline) : pipeline_(pipeline) {}
  ~PipelineInCapture() {
    if (pipeline_ != nullptr) pipeline_->end_capture();
  }
  PipelineInCapture(const PipelineInCapture&) = delete;
  PipelineInCapture& operator=(const PipelineInCapture&) = delete;

 private:
  collectives::ChunkPipeline* pipeline_;
};

}  // namespace

CapturedStep::CapturedStep(device::Device& device, void* native,
                           collectives::ChunkPipeline* pipeline, const std::function<void()>& step)
    : stream_(device.borrow_stream(native)), pipeline_(pipeline) {
  for (auto* events : {&begun_events_, &done_events_})
    for (auto& event : *events) event = device.make_event();
  // The captured stream must wait for the streams of the pipeline before the capture ends. `step`
  // calls DeviceRunner::wait_on(), which makes the stream wait.
  graph_ = device.capture(*stream_, [&] {
    const PipelineInCapture ends(pipeline);
    if (pipeline != nullptr) pipeline->begin_capture(*stream_);
    step();
  });
}

// The graph and exchanges outside of the graph use the same buffers of the pipeline. join() orders
// the graph after earlier exchanges, and fork() orders later exchanges after the graph.
CapturedStep::Launch CapturedStep::launch(std::uint64_t number) {
  device::Event& begun = *begun_events_[number % 2];
  device::Event& done = *done_events_[number % 2];
  if (pipeline_ != nullptr) pipeline_->join(*stream_);
  stream_->record(begun);
  graph_->launch(*stream_);
  stream_->record(done);
  if (pipeline_ != nullptr) pipeline_->fork(*stream_);
  done_ = &done;
  return {&begun, &done};
}

}  // namespace horo::plan
