#include "collectives/device/host_exchange.h"

#include <utility>

#include "horo/base/error.h"

namespace horo::collectives {

using device::Priority;

HostExchange::HostExchange(device::Device& device, std::size_t slot_bytes)
    : slot_bytes_(slot_bytes),
      reached_(device.make_event()),
      called_(device.make_event()),
      down_(device.make_stream(Priority::kHigh)),
      work_(device.make_stream(Priority::kHigh)),
      up_(device.make_stream(Priority::kHigh)) {
  for (Slot& slot : slots_) {
    slot.staging = device.allocate(slot_bytes);
    slot.pinned = device.allocate_pinned(slot_bytes);
    for (auto* event : {&slot.begun, &slot.down, &slot.worked, &slot.returned})
      *event = device.make_event();
  }
}

HostExchange::Slot& HostExchange::next(device::Stream& stream) {
  Slot& slot = slots_[uses_++ % kSlots];
  stream.wait(*slot.returned);
  return slot;
}

void HostExchange::pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
                        std::span<const Up> up) {
  std::byte* const pinned = slot.pinned.data();
  stream.record(*slot.begun);
  down_->wait(*slot.begun);
  for (const Down& piece : down) down_->copy(pinned + piece.offset, piece.at, piece.bytes);
  down_->record(*slot.down);

  work_->wait(*slot.down);
  work_->run_on_host([work = std::move(work), pinned] { work(pinned); });
  work_->record(*slot.worked);

  up_->wait(*slot.worked);
  for (const Up& piece : up) up_->copy(piece.at, pinned + piece.offset, piece.bytes);
  up_->record(*slot.returned);
}

void HostExchange::await_all(device::Stream& stream) {
  for (const Slot& slot : slots_) stream.wait(*slot.returned);
}

void HostExchange::call(device::Stream& stream, std::function<void()> work) {
  stream.record(*reached_);
  work_->wait(*reached_);
  work_->run_on_host(std::move(work));
  work_->record(*called_);
  stream.wait(*called_);
}

void HostExchange::await_idle() noexcept {
  for (device::Stream* stream : {down_.get(), work_.get(), up_.get()}) {
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // The code that waits for the exchange also receives this error.
    }
  }
}

}  // namespace horo::collectives
