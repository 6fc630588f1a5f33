#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "horo/base/device/device.h"

namespace horo::device {

/// A device made of the host: streams are threads of their own, events are futures, memory is the
/// heap's. It keeps a GPU's promises and no more (what no event orders may run in any order, at
/// any time), so that what is built on streams is tested without one.
class HostDevice : public Device {
 public:
  struct Options {
    /// Before each piece of work a stream sleeps up to this long, at random: work that is not
    /// ordered by events meets in all orders.
    std::chrono::microseconds max_delay{0};
    std::uint64_t seed = 0;
    /// What allocate() gives in all.
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
  double milliseconds_between(const Event& first, const Event& second) const override;
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& work) override;
  Memory allocate(std::size_t bytes) override;
  Memory allocate_pinned(std::size_t bytes) override;
  bool owns(const void* address) const override;
  /// Of allocate(), what has not been freed.
  std::size_t allocated_bytes() const;
  /// How many kernels its streams have been given.
  std::size_t launches() const { return *launches_; }

 private:
  class Heap;
  Options options_;
  std::atomic<std::uint64_t> streams_{0};
  std::shared_ptr<Heap> heap_;
  std::shared_ptr<std::atomic<std::size_t>> launches_;  // streams may outlive this
};

/// Whether `device` is one.
bool is_host(const Device& device);
/// Whether `stream` is one of a HostDevice.
bool is_host(const Stream& stream);
/// Gives `work` to such a stream. What it throws ends the stream.
void submit(Stream& stream, std::function<void()> work);
/// The same for the work of a kernel, which HostDevice::launches() counts.
void submit_kernel(Stream& stream, std::function<void()> work);

}  // namespace horo::device
