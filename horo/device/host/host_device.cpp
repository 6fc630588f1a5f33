#include "horo/device/host/host_device.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "horo/base/error.h"
#include "horo/device/host/host_capture.h"
#include "horo/device/host/host_event.h"
#include "horo/device/host/host_queue.h"
#include "horo/device/host/host_signal.h"

namespace horo::device {

HostGraph::HostGraph(Device& device, HostCapture::Calls calls)
    : calls_(std::move(calls)), points_(calls_.points) {
  for (std::size_t s = 0; s < calls_.streams; ++s) streams_.push_back(device.make_stream());
}

// Launches of one graph must not overlap. So `stream` waits for end_, and the streams of the graph
// execute the launches in order.
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

namespace {

constexpr std::align_val_t kAlignment{256};

class HostStream : public Stream {
 public:
  HostStream(std::shared_ptr<HostQueue> queue, std::shared_ptr<std::atomic<std::size_t>> launches)
      : queue_(std::move(queue)), launches_(std::move(launches)) {}

  // Recording replaces the point of the event, as in CUDA. A wait that was submitted earlier still
  // waits for the earlier point.
  void record(Event& event) override {
    check();
    if (const auto capture = queue_->capture())
      return static_cast<HostEvent&>(event).renew_in_capture(capture->record(*queue_));
    const auto point = static_cast<HostEvent&>(event).renew();
    queue_->push([point] { point->reach(""); },
                 [point](const std::string& failure) { point->reach(failure); });
  }
  // The thread of the queue waits, so the caller does not block. An event that was never recorded
  // counts as complete.
  void wait(const Event& event) override {
    if (const auto point = static_cast<const HostEvent&>(event).captured())
      return point->capture->wait(*queue_, *point);
    if (const auto capture = queue_->capture())
      capture->refuse(
          "a stream that is being captured waits for an event that was not recorded there");
    if (const auto point = static_cast<const HostEvent&>(event).latest())
      push([point] { point->await(); });
  }
  void wait(const Signal& signal, std::uint32_t number) override {
    if (const auto capture = queue_->capture())
      capture->refuse("a stream that is being captured waits for a signal");
    push([number, own = static_cast<const HostSignal&>(signal).number()] { own->await(number); });
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    push([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void fill(void* to, int value, std::size_t bytes) override {
    push([=] {
      if (bytes > 0) std::memset(to, value, bytes);
    });
  }
  void run_on_host(std::function<void()> work) override { push(std::move(work)); }
  bool is_idle() const override {
    forbid_in_capture();
    check();
    return queue_->is_idle();
  }
  void synchronize() override {
    forbid_in_capture();
    queue_->await_idle();
    check();
  }
  void* native() const override { return queue_.get(); }
  std::shared_ptr<Capture> captured_in() const override {
    if (auto capture = queue_->capture()) return capture;
    check();  // throws after a failure, as a GPU does
    return nullptr;
  }

  void push(std::function<void()> work) {
    check();
    if (const auto capture = queue_->capture()) return capture->work(*queue_, std::move(work));
    queue_->push(std::move(work));
  }
  // Kernels are counted, so that tests can check the number of launches.
  void push_kernel(std::function<void()> work) {
    push(std::move(work));
    ++*launches_;
  }

 private:
  void forbid_in_capture() const {
    if (const auto capture = queue_->capture())
      capture->refuse("a stream that is being captured is queried or waited for");
  }
  void check() const {
    const std::string failure = queue_->failure();
    if (!failure.empty()) throw DeviceError(failure);
  }

  std::shared_ptr<HostQueue> queue_;
  std::shared_ptr<std::atomic<std::size_t>> launches_;
};

}  // namespace

// The heap is shared by its blocks, so memory may outlive the device.
class HostDevice::Heap : public std::enable_shared_from_this<HostDevice::Heap> {
 public:
  explicit Heap(std::size_t bytes) : bytes_(bytes) {}

  Memory allocate(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (bytes > bytes_ - used_)
      throw DeviceError(
          fmt::format("the host stand-in cannot allocate {} bytes of memory: {} of {} "
                      "bytes are free",
                      bytes, bytes_ - used_, bytes_));
    void* data = ::operator new(bytes, kAlignment);
    used_ += bytes;
    blocks_[static_cast<std::byte*>(data)] = bytes;
    return {data, bytes, [heap = shared_from_this()](void* memory) { heap->free(memory); }};
  }
  bool owns(const void* address) const {
    const std::scoped_lock lock(mutex_);
    const auto* byte = static_cast<const std::byte*>(address);
    const auto after = blocks_.upper_bound(byte);
    if (after == blocks_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return byte < begin + bytes;
  }
  std::size_t used() const {
    const std::scoped_lock lock(mutex_);
    return used_;
  }

 private:
  void free(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto block = blocks_.find(static_cast<std::byte*>(data));
    used_ -= block->second;
    blocks_.erase(block);
    ::operator delete(data, kAlignment);
  }

  const std::size_t bytes_;
  mutable std::mutex mutex_;
  std::size_t used_ = 0;  // guarded by mutex_, as are the members below
  std::map<const std::byte*, std::size_t> blocks_;
};

HostDevice::HostDevice() : HostDevice(Options{}) {}

HostDevice::HostDevice(const Options& options)
    : options_(options),
      heap_(std::make_shared<Heap>(options.memory_bytes)),
      launches_(std::make_shared<std::atomic<std::size_t>>(0)) {}

HostDevice::~HostDevice() = default;

std::unique_ptr<Stream> HostDevice::make_stream(Priority) {
  return std::make_unique<HostStream>(
      std::make_shared<HostQueue>(options_.max_delay, options_.seed * 1000 + streams_++),
      launches_);
}

std::unique_ptr<Stream> HostDevice::borrow_stream(void* native) {
  return std::make_unique<HostStream>(static_cast<HostQueue*>(native)->shared_from_this(),
                                      launches_);
}

std::unique_ptr<Event> HostDevice::make_event() { return std::make_unique<HostEvent>(); }

std::unique_ptr<Signal> HostDevice::make_signal() { return std::make_unique<HostSignal>(); }

std::unique_ptr<Graph> HostDevice::capture(Stream& stream, const std::function<void()>& work) {
  const auto capture = HostCapture::begin(*static_cast<HostQueue*>(stream.native()));
  try {
    work();
  } catch (...) {
    capture->abandon();
    throw;
  }
  return std::make_unique<HostGraph>(*this, capture->end());
}

double HostDevice::milliseconds_between(const Event& first, const Event& second) const {
  const std::chrono::duration<double, std::milli> between =
      static_cast<const HostEvent&>(second).came_at() -
      static_cast<const HostEvent&>(first).came_at();
  return between.count();
}

Memory HostDevice::allocate(std::size_t bytes) { return heap_->allocate(bytes); }

Memory HostDevice::allocate_pinned(std::size_t bytes) {
  return {::operator new(bytes, kAlignment), bytes,
          [](void* memory) { ::operator delete(memory, kAlignment); }};
}

bool HostDevice::owns(const void* address) const { return heap_->owns(address); }

std::size_t HostDevice::allocated_bytes() const { return heap_->used(); }

bool is_host(const Device& device) { return dynamic_cast<const HostDevice*>(&device) != nullptr; }

bool is_host(const Stream& stream) { return dynamic_cast<const HostStream*>(&stream) != nullptr; }

void submit(Stream& stream, std::function<void()> work) {
  static_cast<HostStream&>(stream).push(std::move(work));
}

void submit_kernel(Stream& stream, std::function<void()> work) {
  static_cast<HostStream&>(stream).push_kernel(std::move(work));
}

}  // namespace horo::device
