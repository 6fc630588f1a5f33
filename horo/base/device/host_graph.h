#pragma once

#include <memory>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/base/device/host_capture.h"
#include "horo/base/device/host_event.h"

namespace horo::device {

/// Does captured calls again, on streams of its own. Work that fails ends those, and with them the
/// stream that launched.
class HostGraph : public Graph {
 public:
  HostGraph(Device& device, HostCapture::Calls calls);
  void launch(Stream& stream) override;

 private:
  void repeat(const HostCapture::Call& call);

  const HostCapture::Calls calls_;
  HostEvent begin_, end_;
  std::vector<HostEvent> points_;
  std::vector<std::unique_ptr<Stream>> streams_;  // they wait for their work when they go
};

}  // namespace horo::device
