#include "horo/device/host/host_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"

namespace horo::device {

// The origin is member 0. Other streams become members when they wait for an event of the capture,
// as in CUDA.
std::shared_ptr<HostCapture> HostCapture::begin(HostQueue& origin) {
  auto capture = std::make_shared<HostCapture>();
  if (!origin.enter(capture)) throw DeviceError("capture: the stream is being captured already");
  capture->members_.push_back({origin.shared_from_this(), {0}});
  return capture;
}

void HostCapture::work(HostQueue& stream, HostQueue::Work work) {
  const std::scoped_lock lock(mutex_);
  require_open();
  add({.kind = Call::Kind::kWork, .stream = number_of(stream), .work = std::move(work)});
}

// A point stores how much work of each stream precedes it. A stream that waits for the point takes
// the maximum of both.
std::shared_ptr<const CapturedPoint> HostCapture::record(HostQueue& stream) {
  const std::scoped_lock lock(mutex_);
  require_open();
  const std::size_t number = number_of(stream);
  add({.kind = Call::Kind::kRecord, .stream = number, .point = points_});
  return std::make_shared<CapturedPoint>(
      CapturedPoint{shared_from_this(), points_++, members_[number].before});
}

void HostCapture::wait(HostQueue& stream, const CapturedPoint& point) {
  const std::scoped_lock lock(mutex_);
  if (has_ended_)
    throw DeviceError("a stream waits for an event that was last recorded in a capture");
  require_open();
  if (stream.capture().get() != this) {
    if (!stream.enter(shared_from_this()))
      throw DeviceError("a stream that is being captured waits for an event of another capture");
    members_.push_back({stream.shared_from_this(), {}});
  }
  const std::size_t number = number_of(stream);
  std::vector<std::size_t>& before = members_[number].before;
  before.resize(std::max(before.size(), point.before.size()));
  for (std::size_t s = 0; s < point.before.size(); ++s)
    before[s] = std::max(before[s], point.before[s]);
  add({.kind = Call::Kind::kWait, .stream = number, .point = point.number});
}

void HostCapture::refuse(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (why_invalid_.empty()) why_invalid_ = what;
  throw DeviceError(what);
}

// Like CUDA, requires that the first stream has waited for all work of the other streams. For each
// stream, `before` is the number of work calls that the first stream has waited for.
HostCapture::Calls HostCapture::end() {
  Calls calls;  // declared first, so that kept objects are destroyed after the unlock
  const std::scoped_lock lock(mutex_);
  std::vector<std::size_t> joined = members_.front().before;
  const std::size_t streams = members_.size();
  joined.resize(streams);
  bool is_joined = true;
  for (std::size_t s = 0; s < streams; ++s)
    is_joined = is_joined && joined[s] == members_[s].before[s];
  let_go();
  calls = {std::move(calls_), streams, points_, take_kept()};
  if (!why_invalid_.empty())
    throw DeviceError(fmt::format("the captured work is not a graph: {}", why_invalid_));
  if (!is_joined)
    throw DeviceError(
        "the captured work is not a graph: a stream that joined the capture has work for which the "
        "first stream has not waited");
  return calls;
}

// The calls and the kept objects are swapped out, so that their destructors run after the lock is
// released.
void HostCapture::abandon() noexcept {
  std::vector<Call> calls;
  std::vector<std::shared_ptr<const void>> kept;
  const std::scoped_lock lock(mutex_);
  let_go();
  calls.swap(calls_);
  kept = take_kept();
}

std::size_t HostCapture::number_of(const HostQueue& stream) const {
  return static_cast<std::size_t>(
      std::ranges::find(members_, &stream,
                        [](const Member& member) { return member.queue.get(); }) -
      members_.begin());
}

void HostCapture::require_open() const {
  if (!why_invalid_.empty())
    throw DeviceError(fmt::format("the capture has become invalid: {}", why_invalid_));
}

void HostCapture::add(Call call) {
  std::vector<std::size_t>& before = members_[call.stream].before;
  before.resize(std::max(before.size(), call.stream + 1));
  if (call.kind == Call::Kind::kWork) ++before[call.stream];
  calls_.push_back(std::move(call));
}

void HostCapture::let_go() {
  has_ended_ = true;
  for (const Member& member : members_) member.queue->leave_capture();
  members_.clear();
}

}  // namespace horo::device
