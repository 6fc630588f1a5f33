#include "horo/base/device/host_graph.h"

#include <utility>

#include "horo/base/device/host_device.h"
#include "horo/base/error.h"

namespace horo::device {

HostGraph::HostGraph(Device& device, HostCapture::Calls calls)
    : calls_(std::move(calls)), points_(calls_.points) {
  for (std::size_t s = 0; s < calls_.streams; ++s) streams_.push_back(device.make_stream());
}

// The next launch begins where the streams' first waits, which comes after this one's end.
void HostGraph::launch(Stream& stream) {
  if (stream.captured_in() != nullptr)
    throw DeviceError("a graph cannot be launched by a stream that is being captured");
  stream.record(begin_);
  streams_.front()->wait(begin_);
  for (const HostCapture::Call& call : calls_.in_order) repeat(call);
  streams_.front()->record(end_);
  stream.wait(end_);
}

void HostGraph::repeat(const HostCapture::Call& call) {
  Stream& stream = *streams_[call.stream];
  switch (call.kind) {
    case HostCapture::Call::Kind::kWork:
      return submit(stream, call.work);
    case HostCapture::Call::Kind::kRecord:
      return stream.record(points_[call.point]);
    case HostCapture::Call::Kind::kWait:
      return stream.wait(points_[call.point]);
  }
}

}  // namespace horo::device
