// The functions of CUDA's runtime for streams, events and graphs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/handles.h"
#include "tests/fakes/cuda/last_error.h"
#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

template <typename Object>
Handles<Object>& handles(const char* name) {
  static auto* handles = new Handles<Object>(name);
  return *handles;
}
Handles<CUstream_st>& streams() { return handles<CUstream_st>("stream"); }
Handles<CUevent_st>& events() { return handles<CUevent_st>("event"); }
Handles<CUgraph_st>& graphs() { return handles<CUgraph_st>("graph"); }
Handles<CUgraphExec_st>& executables() { return handles<CUgraphExec_st>("executable graph"); }

cudaStream_t make_stream() {
  auto stream = std::make_shared<CUstream_st>();
  stream->start(stream);
  return streams().add(std::move(stream));
}

cudaStream_t default_stream() {
  static const cudaStream_t stream = make_stream();
  return stream;
}

// Requires streams_mutex().
bool is_idle(const CUstream_st& stream) { return stream.queue.empty(); }

Work record_of(std::shared_ptr<Point> point) {
  return {"cudaEventRecord", {}, [point = std::move(point)](const Actor&, const Moment& moment) {
            const std::scoped_lock lock(streams_mutex());
            point->clock = moment.clock;
            point->time = std::chrono::steady_clock::now();
            point->is_done = true;
            streams_changed().notify_all();
          }};
}

Work wait_for(std::shared_ptr<Point> point) {
  return {"cudaStreamWaitEvent", {}, [point = std::move(point)](const Actor&, Moment& moment) {
            std::unique_lock lock(streams_mutex());
            streams_changed().wait(lock, [&] { return point->is_done; });
            moment.clock.join(point->clock);
          }};
}

// Joins the capture in which an event was recorded, or makes a captured stream wait for the event.
cudaError_t wait_in_capture(const char* call, CUstream_st& stream, const CUevent_st& event) {
  if (event.capture == nullptr || (stream.capture != nullptr && stream.capture != event.capture))
    return invalidate(call, *stream.capture, cudaErrorStreamCaptureIsolation);
  Capture& capture = *event.capture;
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    capture.streams.push_back(&stream);
  }
  capture.join(stream, event.capture_ends);
  return cudaSuccess;
}

void require_uncaptured(const char* call, const CUstream_st& stream) {
  if (stream.capture != nullptr)
    violation(call, stream.name, "the stream is captured, and must not be destroyed");
}

// Returns an error if the event was recorded in a capture that has not ended.
cudaError_t check_event(const char* call, const CUevent_st& event) {
  if (const cudaError_t error = check_no_capture(call)) return error;
  const std::scoped_lock lock(streams_mutex());
  return event.capture == nullptr ? cudaSuccess
                                  : invalidate(call, *event.capture, cudaErrorCapturedEvent);
}

cudaError_t check_stream(const char* call, const CUstream_st& stream) {
  {
    const std::scoped_lock lock(streams_mutex());
    if (stream.capture != nullptr)
      return invalidate(call, *stream.capture, cudaErrorStreamCaptureUnsupported);
  }
  return check_no_capture(call);
}

}  // namespace

CUstream_st& checked(const char* call, cudaStream_t stream) {
  return *streams().get(call, stream == nullptr ? default_stream() : stream);
}

CUevent_st& checked(const char* call, cudaEvent_t event) { return *events().get(call, event); }

// CUDA's cudaFree() may wait for the work of the device, but does not promise to.
void require_unused(const char* call, const void* data) {
  const auto is_used_by = [&](const Work& work) {
    return std::ranges::any_of(work.ranges, [&](const Range& range) {
      return Memory::of_process().are_in_one_block(range.data, data);
    });
  };
  for (const auto& stream : streams().all()) {
    const std::scoped_lock lock(streams_mutex());
    for (const auto& [work, host] : stream->queue)
      if (is_used_by(work))
        violation(call, stream->name, "the block is used by an unfinished " + work.call);
  }
}

}  // namespace horo::fakes

using namespace horo::fakes;  // NOLINT

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  enter("cudaStreamCreateWithPriority");
  *stream = make_stream();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  enter("cudaStreamDestroy");
  const auto stream = streams().get("cudaStreamDestroy", handle);
  const std::scoped_lock lock(streams_mutex());
  require_uncaptured("cudaStreamDestroy", *stream);
  streams().remove("cudaStreamDestroy", handle);
  stream->is_destroyed = true;
  streams_changed().notify_all();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  enter("cudaStreamSynchronize");
  CUstream_st& stream = checked("cudaStreamSynchronize", handle);
  if (const cudaError_t error = check_stream("cudaStreamSynchronize", stream)) return keep(error);
  std::unique_lock lock(streams_mutex());
  streams_changed().wait(lock, [&] { return is_idle(stream); });
  host_learns(stream.clock);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  enter("cudaStreamQuery");
  CUstream_st& stream = checked("cudaStreamQuery", handle);
  if (const cudaError_t error = check_stream("cudaStreamQuery", stream)) return keep(error);
  const std::scoped_lock lock(streams_mutex());
  if (!is_idle(stream)) return cudaErrorNotReady;
  host_learns(stream.clock);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  const char* const call = "cudaStreamWaitEvent";
  enter(call);
  CUstream_st& stream = checked(call, handle);
  CUevent_st& event = checked(call, event_handle);
  std::shared_ptr<Point> point;
  {
    const std::scoped_lock lock(streams_mutex());
    if (stream.capture != nullptr || event.capture != nullptr)
      return keep(wait_in_capture(call, stream, event));
    point = event.point;
  }
  if (point != nullptr) submit(call, handle, wait_for(std::move(point)));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  enter("cudaEventCreateWithFlags");
  auto made = std::make_shared<CUevent_st>();
  made->has_time = (flags & cudaEventDisableTiming) == 0;
  *event = events().add(std::move(made));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  enter("cudaEventDestroy");
  events().remove("cudaEventDestroy", event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  enter("cudaEventRecord");
  CUstream_st& stream = checked("cudaEventRecord", handle);
  CUevent_st& event = checked("cudaEventRecord", event_handle);
  auto point = std::make_shared<Point>();
  {
    const std::scoped_lock lock(streams_mutex());
    event.capture = stream.capture;
    event.capture_ends = stream.capture_ends;
    if (stream.capture != nullptr) return cudaSuccess;
    event.point = point;
  }
  submit("cudaEventRecord", handle, record_of(std::move(point)));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  enter("cudaEventQuery");
  const CUevent_st& event = checked("cudaEventQuery", handle);
  if (const cudaError_t error = check_event("cudaEventQuery", event)) return keep(error);
  const std::scoped_lock lock(streams_mutex());
  if (event.point == nullptr) return cudaSuccess;
  if (!event.point->is_done) return cudaErrorNotReady;
  host_learns(event.point->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  enter("cudaEventSynchronize");
  const CUevent_st& event = checked("cudaEventSynchronize", handle);
  if (const cudaError_t error = check_event("cudaEventSynchronize", event)) return keep(error);
  std::unique_lock lock(streams_mutex());
  const std::shared_ptr<Point> point = event.point;
  if (point == nullptr) return cudaSuccess;
  streams_changed().wait(lock, [&] { return point->is_done; });
  host_learns(point->clock);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  enter("cudaEventElapsedTime");
  const CUevent_st& start = checked("cudaEventElapsedTime", first);
  const CUevent_st& end = checked("cudaEventElapsedTime", second);
  const std::scoped_lock lock(streams_mutex());
  if (!start.has_time || !end.has_time || start.point == nullptr || end.point == nullptr)
    return keep(cudaErrorInvalidResourceHandle);
  if (!start.point->is_done || !end.point->is_done) return keep(cudaErrorNotReady);
  const std::chrono::duration<float, std::milli> time = end.point->time - start.point->time;
  *milliseconds = time.count();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  enter("cudaMemcpyAsync");
  const auto *target = static_cast<std::byte*>(to), *source = static_cast<const std::byte*>(from);
  if (bytes > 0 && target < source + bytes && source < target + bytes)
    violation("cudaMemcpyAsync", checked("cudaMemcpyAsync", stream).name, "the ranges overlap");
  submit("cudaMemcpyAsync", stream,
         {"cudaMemcpyAsync",
          {{from, bytes, false}, {to, bytes, true}},
          [=](const Actor&, const Moment&) {
            if (bytes > 0) std::memcpy(to, from, bytes);
          }});
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  enter("cudaMemsetAsync");
  submit("cudaMemsetAsync", stream,
         {"cudaMemsetAsync", {{to, bytes, true}}, [=](const Actor&, const Moment&) {
            if (bytes > 0) std::memset(to, value, bytes);
          }});
  return cudaSuccess;
}

// The host knows, from the function, that the earlier work of the stream is complete.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  enter("cudaLaunchHostFunc");
  submit("cudaLaunchHostFunc", stream,
         {"cudaLaunchHostFunc", {}, [=](const Actor&, const Moment& moment) {
            host_learns(moment.clock);
            const InHostFunction here;
            function(data);
          }});
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  enter("cudaThreadExchangeStreamCaptureMode");
  std::swap(*mode, thread_capture_mode());
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  enter("cudaStreamBeginCapture");
  CUstream_st& stream = checked("cudaStreamBeginCapture", handle);
  const std::scoped_lock lock(streams_mutex());
  if (stream.capture != nullptr) return keep(cudaErrorIllegalState);
  stream.capture = std::make_shared<Capture>(stream, mode);
  stream.capture->streams.push_back(&stream);
  add_capture(stream.capture);
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
  enter("cudaStreamGetCaptureInfo");
  const CUstream_st& stream = checked("cudaStreamGetCaptureInfo", handle);
  const std::scoped_lock lock(streams_mutex());
  *status = cudaStreamCaptureStatusNone;
  if (stream.capture == nullptr) return cudaSuccess;
  *status = stream.capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  if (number != nullptr) *number = stream.capture->number;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  enter("cudaStreamEndCapture");
  CUstream_st& stream = checked("cudaStreamEndCapture", handle);
  const std::scoped_lock lock(streams_mutex());
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr || &capture->origin != &stream)
    violation("cudaStreamEndCapture", stream.name, "no capture began on the stream");
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    violation("cudaStreamEndCapture", stream.name, "another thread began the capture");
  const bool is_joined = capture->is_joined();
  capture->release();
  remove_capture(capture);
  for (const auto& event : events().all()) {
    if (event->capture != capture) continue;
    event->capture = nullptr;  // the content of the event is undefined from here on
    event->point = nullptr;
  }
  if (capture->is_invalid) return keep(cudaErrorStreamCaptureInvalidated);
  if (!is_joined) return keep(cudaErrorStreamCaptureUnjoined);
  *graph = graphs().add(std::make_shared<CUgraph_st>(std::move(capture->nodes)));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  enter("cudaGraphInstantiate");
  *executable = executables().add(
      std::make_shared<CUgraphExec_st>(*graphs().get("cudaGraphInstantiate", graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  enter("cudaGraphLaunch");
  const auto graph = executables().get("cudaGraphLaunch", handle);
  graph->check(checked("cudaGraphLaunch", stream).name);
  submit("cudaGraphLaunch", stream,
         {"cudaGraphLaunch", {}, [graph](const Actor& actor, Moment& moment) {
            graph->run(actor.place, moment);
          }});
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  enter("cudaGraphDestroy");
  graphs().remove("cudaGraphDestroy", graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  enter("cudaGraphExecDestroy");
  executables().remove("cudaGraphExecDestroy", executable);
  return cudaSuccess;
}

}  // extern "C"
