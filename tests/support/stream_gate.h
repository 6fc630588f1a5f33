#pragma once

#include "horo/device/device.h"

namespace horo::device {

/// Blocks streams of any device until open(), with a kernel that polls a flag in pinned memory.
/// While a stream is blocked, do not call anything that synchronises the whole device, such as
/// freeing memory.
class StreamGate {
 public:
  explicit StreamGate(Device& device);
  /// Opens the gate, so that a failed test does not hang. The blocked streams must complete before
  /// the destruction.
  ~StreamGate();
  void hold(Stream& stream);
  void open();

 private:
  Memory flag_;
};

}  // namespace horo::device
