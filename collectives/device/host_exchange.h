#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "horo/base/device/device.h"

namespace horo::collectives {

/// Takes pieces of a device's memory through functions on the host, in the order of the calls: down
/// into pinned memory, through the function, up again. Each of the three has a stream of its own,
/// which events join, and slots of memory take turns: while the function has one piece, the next is
/// on its way down and the one before on its way up. Nothing here blocks but await_idle(). Used by
/// one thread at a time.
class HostExchange {
 public:
  static constexpr std::size_t kSlots = 4;

  /// What a piece takes on its way.
  struct Slot {
    device::Memory staging;  ///< of the device: room for what has no place of its own there
    device::Memory pinned;
    std::unique_ptr<device::Event> begun, down, worked, returned;
  };
  /// `bytes` at `at` in the device's memory and `offset` in the slot's pinned memory.
  template <typename Byte>
  struct Piece {
    Byte* at;
    std::size_t offset, bytes;
  };
  using Down = Piece<const std::byte>;
  using Up = Piece<std::byte>;
  /// Gets the slot's pinned memory. See device::Stream::run_on_host().
  using Work = std::function<void(std::byte* pinned)>;

  /// Takes kSlots times `slot_bytes` of the device and as much pinned memory. `device` outlives
  /// this. Throws DeviceError if there is too little.
  HostExchange(device::Device& device, std::size_t slot_bytes);

  std::size_t slot_bytes() const { return slot_bytes_; }
  /// The slot that has been used least recently. `stream` goes on when that use is over.
  Slot& next(device::Stream& stream);
  /// Copies `down` to the slot once `stream` has come here, calls `work`, copies `up` from the
  /// slot, which ends with slot.returned.
  void pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
            std::span<const Up> up);
  /// `stream` goes on when all that was passed has returned.
  void await_all(device::Stream& stream);
  /// Calls `work`, in the order of what was passed, once `stream` has come here; `stream` goes on
  /// after it.
  void call(device::Stream& stream, std::function<void()> work);
  /// Blocks until all is done; for what failed, not long.
  void await_idle() noexcept;

 private:
  const std::size_t slot_bytes_;
  std::array<Slot, kSlots> slots_;  // outlive the streams that use them
  std::unique_ptr<device::Event> reached_, called_;
  std::unique_ptr<device::Stream> down_, work_, up_;
  std::size_t uses_ = 0;
};

}  // namespace horo::collectives
