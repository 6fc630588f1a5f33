#pragma once

#include <cstdint>

namespace horo::device {

/// A number that the host raises and for which streams wait (Stream::wait()). It lets a thread of
/// the host continue the work of a stream, without a host function of the device. Initially 0.
/// Thread-safe. The waits of streams must be complete before the signal is destroyed.
class Signal {
 public:
  virtual ~Signal() = default;
  /// Sets the number. Streams that wait for `number` or less continue, and see all earlier writes
  /// of the calling thread to pinned memory. Numbers are compared modulo 2^32: `number` must be at
  /// least the current number, and ahead of it by less than 2^31. Does not block and does not call
  /// the device.
  virtual void raise(std::uint32_t number) = 0;
};

/// Whether a signal at `current` has reached `number`, modulo 2^32.
constexpr bool has_reached(std::uint32_t current, std::uint32_t number) {
  return static_cast<std::int32_t>(current - number) >= 0;
}

}  // namespace horo::device
