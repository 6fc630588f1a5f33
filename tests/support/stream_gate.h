#pragma once

#include "horo/base/device/device.h"

namespace horo::device {

/// Holds streams until it is opened, on any device, by a kernel that looks at pinned memory. While
/// it holds one, nothing that waits for the whole device may be called, as freeing memory is.
class StreamGate {
 public:
  explicit StreamGate(Device& device);
  /// Opens, so that a test that fails does not hang. What it holds must end before it goes.
  ~StreamGate();
  void hold(Stream& stream);
  void open();

 private:
  Memory flag_;
};

}  // namespace horo::device
