#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "horo/base/error.h"
#include "horo/device/event.h"
#include "horo/device/graph.h"
#include "horo/device/memory.h"
#include "horo/device/signal.h"
#include "horo/device/stream.h"

/// GPUs, and their stand-in on the host.
namespace horo::device {

/// The priority of the work of a stream compared with that of other streams of the device.
enum class Priority { kNormal, kHigh };

/// A processor with memory of its own, such as a GPU. Thread-safe. Must outlive the objects that it
/// creates.
class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  /// Returns another owner of this device. Throws InvalidArgument if no std::shared_ptr owns it.
  std::shared_ptr<Device> share() {
    std::shared_ptr<Device> owner = weak_from_this().lock();
    HORO_CHECK(owner != nullptr,
               describe() +
                   ": a std::shared_ptr must own a device whose tensors are passed to "
                   "horo, as open_gpu() returns it");
    return owner;
  }
  /// For example "NVIDIA H200 (GPU 0)".
  virtual std::string describe() const = 0;
  /// Makes this the current device of the calling thread. Libraries of its vendor use the current
  /// device.
  virtual void make_current() = 0;
  /// Like make_current(), for a thread of horo. The thread's calls then do not disturb threads of
  /// the program that capture graphs.
  virtual void serve_thread() = 0;
  /// The number of blocks of a kernel that keeps the device busy; more blocks have no benefit.
  virtual unsigned full_grid() const = 0;
  /// A stream that is independent of all others, including the default stream of the device.
  virtual std::unique_ptr<Stream> make_stream(Priority priority = Priority::kNormal) = 0;
  /// The program's stream with this handle (Stream::native()). The program's stream must outlive
  /// the result.
  virtual std::unique_ptr<Stream> borrow_stream(void* native) = 0;
  /// An event without a point; see Event.
  virtual std::unique_ptr<Event> make_event() = 0;
  /// An event that records its time, at a small cost on the device.
  virtual std::unique_ptr<Event> make_timed_event() = 0;
  /// A signal for streams of this device. Throws DeviceError if the device cannot wait for the
  /// host, or if there is too little memory.
  virtual std::unique_ptr<Signal> make_signal() = 0;
  /// The time between two timed events. Throws DeviceError unless both are complete.
  virtual double milliseconds_between(const Event& first, const Event& second) const = 0;
  /// Records the work that `work` submits to `stream` as a graph, without executing it. Another
  /// stream joins the capture when it waits for an event that was recorded in the capture. `stream`
  /// must wait for the work of such streams before the end. Other streams are not affected. During
  /// the capture, the calling thread must not wait for the device and must not query the device.
  /// Streams of the capture must not wait for earlier events. Events recorded in the capture are
  /// undefined until they are recorded again. Throws DeviceError if these rules were broken, and
  /// any exception of `work`. No stream is being captured afterwards.
  virtual std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& work) = 0;
  /// Allocates device memory with undefined content, aligned to 256 bytes. May wait for work of the
  /// device. Throws DeviceError with the requested and the free number of bytes if there is not
  /// enough memory.
  virtual Memory allocate(std::size_t bytes) = 0;
  /// Allocates pinned host memory, which streams can copy from and to. Throws like allocate().
  virtual Memory allocate_pinned(std::size_t bytes) = 0;
  /// Whether `address` is in memory of this device. The memory of the host stand-in is host memory,
  /// so the stand-in checks its own allocations.
  virtual bool owns(const void* address) const = 0;
};

}  // namespace horo::device
