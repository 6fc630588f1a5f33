#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"
#include "horo/device/device.h"

namespace horo::collectives {

/// Collectives in host memory among the ranks of this node, over messages. They are used to set up
/// the collectives between the GPUs of the node, or in place of the GPU library.
class NodeRing {
 public:
  /// `peers` connects all ranks. No other code may use `peers`.
  NodeRing(std::unique_ptr<PointToPoint> peers, const Topology& topology, std::size_t segment_bytes)
      : peers_(std::move(peers)),
        group_(*peers_, topology.ranks_of(topology.node), 0),
        ring_(group_, segment_bytes, names_of(topology, topology.ranks_of(topology.node))) {}
  /// Ends transfers that are still in flight after a failure, before the other members free the
  /// memory that the transfers access.
  ~NodeRing() { peers_.reset(); }
  NodeRing(const NodeRing&) = delete;
  NodeRing& operator=(const NodeRing&) = delete;

  /// `policy` must outlive this object.
  void set_wait_policy(const WaitPolicy& policy) { peers_->set_wait_policy(policy); }
  Collectives& collectives() { return ring_; }

 private:
  std::unique_ptr<PointToPoint> peers_;
  SubGroup group_;
  RingCollectives ring_;
};

/// Passes pieces of device memory through functions on the host, in the order of the calls. For
/// each piece, it copies the piece to pinned memory (down), calls the function, and copies the
/// result back (up). Each of these three stages has its own stream, and events order the stages.
/// Consecutive pieces use different slots of memory. While the function processes one piece, the
/// next piece can therefore be copied down and the previous piece copied up. After construction,
/// only await_idle() blocks. Only one thread at a time may use the object.
class HostExchange {
 public:
  static constexpr std::size_t kSlots = 4;

  /// The memory and the events of one piece.
  struct Slot {
    device::Memory staging;  ///< device memory for intermediate values
    device::Memory pinned;
    std::unique_ptr<device::Event> begun, down, worked, returned;
  };
  /// A block of `bytes` bytes. It is at address `at` in device memory and at `offset` in the pinned
  /// memory of the slot.
  template <typename Byte>
  struct Piece {
    Byte* at;
    std::size_t offset, bytes;
  };
  using Down = Piece<const std::byte>;
  using Up = Piece<std::byte>;
  /// A function on the host, which receives the pinned memory of the slot. The rules of
  /// device::Stream::run_on_host() apply.
  using Work = std::function<void(std::byte* pinned)>;

  /// Allocates kSlots times `slot_bytes` of device memory and as much pinned memory. `device` must
  /// outlive this object. Throws DeviceError if there is too little memory.
  HostExchange(device::Device& device, std::size_t slot_bytes);

  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Returns the least recently used slot. Makes `stream` wait until the previous use of the slot
  /// is complete.
  Slot& next(device::Stream& stream);
  /// Copies `down` to the slot, calls `work`, and copies `up` from the slot. All of this starts
  /// after the work that was submitted to `stream` before. Records slot.returned at the end.
  void pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
            std::span<const Up> up);
  /// Makes `stream` wait until all pieces passed so far are back in device memory.
  void await_all(device::Stream& stream);
  /// Calls `work` on the host, after the work that was submitted to `stream` before and after the
  /// functions of earlier pieces. `stream` waits until `work` has returned.
  void call(device::Stream& stream, std::function<void()> work);
  /// Blocks until all work is complete. After a failure, the wait is short.
  void await_idle() noexcept;

 private:
  const std::size_t slot_bytes_;
  std::array<Slot, kSlots> slots_;  // must outlive the streams that use them
  std::unique_ptr<device::Event> reached_, called_;
  std::unique_ptr<device::Stream> down_, work_, up_;
  std::size_t uses_ = 0;
};

}  // namespace horo::collectives
