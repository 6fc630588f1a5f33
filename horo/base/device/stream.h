#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "horo/base/device/event.h"
#include "horo/base/device/graph.h"

namespace horo::device {

/// Work that a device does in the order in which it was given. Nothing here blocks but
/// synchronize(). Work that fails ends the stream: what follows is not done, events recorded after
/// it and streams that wait for those fail too, and the next call says so with DeviceError. Used
/// by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Makes `event` stand for the work given so far.
  virtual void record(Event& event) = 0;
  /// What is given from now on begins after the work that `event` stands for at this moment.
  virtual void wait(const Event& event) = 0;
  /// Copies within the device, or between it and pinned memory. Memory does not overlap.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Sets every byte to `value`.
  virtual void fill(void* to, int value, std::size_t bytes) = 0;
  /// Runs `work` on a thread of the host when the device comes to it; what is given later comes
  /// after it. It gives the device no work, waits for none and calls no library of the device's
  /// maker, but may wait for other processes: such work of all streams may take turns on one
  /// thread, so it always ends. What it throws fails it: of a GPU the device goes on all the same
  /// with what it has been given already, host work apart, and events tell nothing; only the calls
  /// after it throw.
  virtual void run_on_host(std::function<void()> work) = 0;
  /// Whether all work is done.
  virtual bool is_idle() const = 0;
  /// Blocks the calling thread until all work is done.
  virtual void synchronize() = 0;
  /// The device's own handle: a cudaStream_t; of the stand-in, what Device::borrow_stream() takes.
  virtual void* native() const = 0;
  /// What its work goes into in the place of being done; null: nothing, it is done. Throws
  /// InvalidArgument if that is invalid, or was not begun by Device::capture(), and DeviceError if
  /// the device has failed.
  virtual std::shared_ptr<Capture> captured_in() const = 0;
};

}  // namespace horo::device
