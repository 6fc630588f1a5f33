#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "horo/base/device/event.h"
#include "horo/base/device/graph.h"
#include "horo/base/device/memory.h"
#include "horo/base/device/stream.h"

namespace horo::device {

enum class Priority { kNormal, kHigh };

/// What computes beside the host and has memory of its own. Thread-safe. Outlives what it makes.
class Device {
 public:
  virtual ~Device() = default;
  /// "NVIDIA H200 (GPU 0)".
  virtual std::string describe() const = 0;
  /// Makes it the calling thread's current device, which libraries of the device's maker ask for.
  virtual void make_current() = 0;
  /// The same for a thread of horo's own; what it asks the device for does not disturb the
  /// program's threads, which may be capturing graphs.
  virtual void serve_thread() = 0;
  /// How many blocks of a kernel it takes to keep it busy, and no more.
  virtual unsigned full_grid() const = 0;
  /// A stream that waits for no other, the device's default stream included.
  virtual std::unique_ptr<Stream> make_stream(Priority priority = Priority::kNormal) = 0;
  /// The user's stream with this handle (Stream::native()), which outlives the result.
  virtual std::unique_ptr<Stream> borrow_stream(void* native) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// One that knows when it came, for which the device does a little more.
  virtual std::unique_ptr<Event> make_timed_event() = 0;
  /// From one timed event to another; both are done. Throws DeviceError otherwise.
  virtual double milliseconds_between(const Event& first, const Event& second) const = 0;
  /// Makes a graph of what `work` gives to `stream`, of which nothing is done. Other streams take
  /// part once they wait for an event that was recorded meanwhile, and `stream` waits for them
  /// before the end; all other work stays as it is. Meanwhile the calling thread may neither wait
  /// for the device nor ask what it has done; streams that take part wait for no events of before,
  /// and events that are recorded there say nothing until they are recorded anew. Throws
  /// DeviceError if that was not kept, and what `work` throws; then no stream is captured any more.
  virtual std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& work) = 0;
  /// Memory of the device, aligned to 256 bytes, of any content. Throws DeviceError, with the
  /// number of bytes asked for and free, when there is not enough. May wait for work of the device.
  virtual Memory allocate(std::size_t bytes) = 0;
  /// Memory of the host that streams copy from and to. Likewise.
  virtual Memory allocate_pinned(std::size_t bytes) = 0;
  /// Whether `address` lies in memory of this device. The stand-in's lies in the host's: it knows
  /// what it has allocated.
  virtual bool owns(const void* address) const = 0;
};

}  // namespace horo::device
