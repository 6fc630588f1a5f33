#include "horo/runtime/device_message.h"

#include <exception>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/device.h"

namespace horo {
namespace {

using coordinator::MessageEntry;
using coordinator::Side;

class PinnedStaging : public coordinator::MessageStaging {
 public:
  PinnedStaging(std::shared_ptr<device::Device> device, const ConstTensorView& tensor, Side side,
                void* native)
      : device_(std::move(device)),
        tensor_(const_cast<void*>(tensor.data())),
        pinned_(device_->allocate_pinned(tensor.bytes())),
        event_(device_->make_event()) {
    const auto stream = device_->borrow_stream(native);
    if (stream->captured_in() != nullptr)
      throw DeviceError("a message between two ranks cannot be captured in a graph");
    if (side == Side::kSend) stream->copy(pinned_.data(), tensor_, pinned_.size());
    stream->record(*event_);
    is_copying_ = side == Side::kSend;
  }

  // An error of the device was reported by is_filled() or is_emptied().
  ~PinnedStaging() override {
    if (!is_copying_) return;
    try {
      event_->synchronize();
    } catch (const std::exception& error) {
      log_debug("a copy of a message failed: {}", error.what());
    }
  }

  std::byte* data() { return pinned_.data(); }

  bool is_filled() override {
    device_->make_current();
    return event_->is_done();
  }

  bool is_emptied() override {
    device_->make_current();
    if (!std::exchange(is_copying_, true)) {
      stream_ = device_->make_stream();
      stream_->wait(*event_);
      stream_->copy(tensor_, pinned_.data(), pinned_.size());
      stream_->record(*event_);
    }
    return event_->is_done();
  }

 private:
  const std::shared_ptr<device::Device> device_;
  void* const tensor_;
  device::Memory pinned_;
  std::unique_ptr<device::Event> event_;  // of a receiver: before the copy, then after it
  std::unique_ptr<device::Stream> stream_;
  bool is_copying_ = false;
};

}  // namespace

void stage_message(MessageEntry& entry, const ConstTensorView& tensor, void* native) {
  if (entry.bytes == 0) return;
  auto staging =
      std::make_shared<PinnedStaging>(tensor.device()->share(), tensor, entry.header.side, native);
  entry.data = staging->data();
  entry.staging = std::move(staging);
}

}  // namespace horo
