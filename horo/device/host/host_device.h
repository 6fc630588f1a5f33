#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "horo/device/device.h"
#include "horo/device/host/host_capture.h"
#include "horo/device/host/host_event.h"

namespace horo::device {

/// Executes captured calls on streams that the graph owns. An exception fails these streams, and
/// with them the stream of the launch.
class HostGraph : public Graph {
 public:
  HostGraph(Device& device, HostCapture::Calls calls);
  void launch(Stream& stream) override;

 private:
  void repeat(const HostCapture::Call& call);

  const HostCapture::Calls calls_;
  HostEvent begin_, end_;
  std::vector<HostEvent> points_;
  std::vector<std::unique_ptr<Stream>> streams_;  // destroyed first; destructors wait for the work
};

/// A device that runs on the host: streams are threads, events are futures, memory is on the heap.
/// This device guarantees what a GPU guarantees and no more. Work that no event orders may run in
/// any order at any time. Code for streams can therefore be tested without a GPU.
class HostDevice : public Device {
 public:
  struct Options {
    /// The longest random sleep of a stream before each piece of work. Work that events do not
    /// order then runs in many orders.
    std::chrono::microseconds max_delay{0};
    std::uint64_t seed = 0;
    /// The total size of the device memory. Pinned memory is not limited.
    std::size_t memory_bytes = SIZE_MAX;
  };

  HostDevice();
  explicit HostDevice(const Options& options);
  ~HostDevice() override;

  std::string describe() const override { return "host stand-in"; }
  void make_current() override {}
  void serve_thread() override {}
  unsigned full_grid() const override { return 3; }
  std::unique_ptr<Stream> make_stream(Priority priority) override;
  std::unique_ptr<Stream> borrow_stream(void* native) override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timed_event() override { return make_event(); }
  std::unique_ptr<Signal> make_signal() override;
  double milliseconds_between(const Event& first, const Event& second) const override;
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& work) override;
  Memory allocate(std::size_t bytes) override;
  Memory allocate_pinned(std::size_t bytes) override;
  bool owns(const void* address) const override;
  /// The number of bytes of device memory in use.
  std::size_t allocated_bytes() const;
  /// The number of kernels that were submitted to the streams of this device.
  std::size_t launches() const { return *launches_; }

 private:
  class Heap;
  Options options_;
  std::atomic<std::uint64_t> streams_{0};
  std::shared_ptr<Heap> heap_;
  std::shared_ptr<std::atomic<std::size_t>> launches_;  // streams may outlive this object
};

/// Whether `device` is a HostDevice.
bool is_host(const Device& device);
/// Whether `stream` belongs to a HostDevice.
bool is_host(const Stream& stream);
/// Submits `work` to `stream`, which must belong to a HostDevice. An exception fails the stream.
void submit(Stream& stream, std::function<void()> work);
/// The same for a kernel, which HostDevice::launches() counts.
void submit_kernel(Stream& stream, std::function<void()> work);

}  // namespace horo::device
