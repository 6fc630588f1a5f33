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

/// Collectives in host memory among the ranks of this node, over messages. They connect the GPUs of
/// the node during setup, or replace the GPU library.
class NodeRing {
 public:
  /// `peers` connects all ranks and is not used by other code.
  NodeRing(std::unique_ptr<PointToPoint> peers, const Topology& topology, std::size_t segment_bytes)
      : peers_(std::move(peers)),
        group_(*peers_, topology.ranks_of(topology.node), 0),
        ring_(group_, segment_bytes, names_of(topology, topology.ranks_of(topology.node))) {}
  /// Ends transfers that a failure left in flight before the memory that they access is freed.
  ~NodeRing() { peers_.reset(); }
  NodeRing(const NodeRing&) = delete;
  NodeRing& operator=(const NodeRing&) = delete;

  /// `policy` outlives this.
  void set_wait_policy(const WaitPolicy& policy) { peers_->set_wait_policy(policy); }
  Collectives& collectives() { return ring_; }

 private:
  std::unique_ptr<PointToPoint> peers_;
  SubGroup group_;
  RingCollectives ring_;
};

/// Passes pieces of device memory through functions on the host, in the order of the calls: it
/// copies a piece to pinned memory, calls the function, and copies the result back. Each of the
/// three stages has its own stream, and events order them. The stages use slots of memory in turn,
/// so while the function processes one piece, the next one is copied down and the previous one is
/// copied up. Only await_idle() blocks. Used by one thread at a time.
class HostExchange {
 public:
  static constexpr std::size_t kSlots = 4;

  /// The memory and the events of one piece.
  struct Slot {
    device::Memory staging;  ///< device memory for intermediate values
    device::Memory pinned;
    std::unique_ptr<device::Event> begun, down, worked, returned;
  };
  /// `bytes` bytes at `at` in device memory, and at `offset` in the pinned memory of the slot.
  template <typename Byte>
  struct Piece {
    Byte* at;
    std::size_t offset, bytes;
  };
  using Down = Piece<const std::byte>;
  using Up = Piece<std::byte>;
  /// Receives the pinned memory of the slot. See device::Stream::run_on_host().
  using Work = std::function<void(std::byte* pinned)>;

  /// Allocates kSlots times `slot_bytes` of device memory and as much pinned memory. `device`
  /// outlives this object. Throws DeviceError if there is too little memory.
  HostExchange(device::Device& device, std::size_t slot_bytes);

  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Returns the least recently used slot. Makes `stream` wait until its previous use is complete.
  Slot& next(device::Stream& stream);
  /// After the work that `stream` has so far: copies `down` to the slot, calls `work`, and copies
  /// `up` from the slot. slot.returned marks the end.
  void pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
            std::span<const Up> up);
  /// Makes `stream` wait until all passed pieces have returned.
  void await_all(device::Stream& stream);
  /// Calls `work` after the work that `stream` has so far, in order with passed pieces. `stream`
  /// waits for it.
  void call(device::Stream& stream, std::function<void()> work);
  /// Blocks until all work is complete. After a failure this does not take long.
  void await_idle() noexcept;

 private:
  const std::size_t slot_bytes_;
  std::array<Slot, kSlots> slots_;  // outlive the streams that use them
  std::unique_ptr<device::Event> reached_, called_;
  std::unique_ptr<device::Stream> down_, work_, up_;
  std::size_t uses_ = 0;
};

}  // namespace horo::collectives
