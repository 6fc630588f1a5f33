#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "horo/device/event.h"
#include "horo/device/graph.h"
#include "horo/device/signal.h"

namespace horo::device {

/// A queue of work that a device executes in order. Only synchronize() blocks. Work that fails ends
/// the stream. Later work is not executed, and the next call throws DeviceError. Events recorded
/// after the failed work fail too, as do streams that wait for these events. run_on_host()
/// describes an exception to this rule. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Sets `event` to the end of the work submitted so far.
  virtual void record(Event& event) = 0;
  /// Work submitted from now on starts after the current point of `event`.
  virtual void wait(const Event& event) = 0;
  /// Work submitted from now on starts after `signal` has reached `number`. `signal` must be of the
  /// same device. Throws DeviceError if the stream is being captured: a later launch of the graph
  /// would wait for the same number.
  virtual void wait(const Signal& signal, std::uint32_t number) = 0;
  /// Copies within the device, or between the device and pinned memory. The ranges must not
  /// overlap.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Sets every byte to `value`.
  virtual void fill(void* to, int value, std::size_t bytes) = 0;
  /// Runs `work` on a host thread, in stream order. Later work of the stream waits for `work`.
  /// `work` must not submit work to the device, wait for the device, or call libraries of the
  /// device's vendor. `work` may wait for other processes, but must always end, because the host
  /// work of all streams may share one thread. An exception fails the stream. On a GPU, device work
  /// that was already submitted still runs, but later host work of the stream does not. Events of a
  /// GPU do not report the failure; only later calls throw.
  virtual void run_on_host(std::function<void()> work) = 0;
  /// Whether all work has completed.
  virtual bool is_idle() const = 0;
  /// Blocks the calling thread until all work has completed.
  virtual void synchronize() = 0;
  /// The native handle: a cudaStream_t, or for the host stand-in the argument of
  /// Device::borrow_stream().
  virtual void* native() const = 0;
  /// The capture that records the work of this stream; null if the work is executed. Throws
  /// InvalidArgument if the capture is invalid or was not started by Device::capture(), and
  /// DeviceError if the device has failed.
  virtual std::shared_ptr<Capture> captured_in() const = 0;
};

}  // namespace horo::device
