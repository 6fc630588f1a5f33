#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device/first_failure.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"
#include "horo/device/device.h"

namespace horo::collectives {

/// Collectives in host memory among the ranks of this node, over messages. They set up the
/// collectives between the GPUs of the node. Without GPUs, HostDeviceCollectives runs them.
class NodeRing {
 public:
  /// `peers` connects all ranks of `topology`. No other code may use `peers`.
  NodeRing(std::unique_ptr<PointToPoint> peers, const Topology& topology, std::size_t segment_bytes)
      : peers_(std::move(peers)),
        group_(*peers_, topology.ranks_of(topology.node), 0),
        ring_(group_, segment_bytes, names_of(topology, topology.ranks_of(topology.node))) {}
  /// Destroys the peers before the other members: after a failure, transfers that access memory of
  /// these members may still be in flight.
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

/// Lets functions on the host process data in device memory. One pass copies blocks to pinned
/// memory (down), calls the function, and copies blocks back (up). Consecutive passes use different
/// slots of memory. While the function of one pass runs, the next pass can therefore copy down and
/// the previous pass can copy up.
///
/// A thread of this object calls the functions one after the other, in the order of the calls. It
/// polls an event until the data is in pinned memory. Streams wait for the function by a
/// device::Signal that the thread raises. The functions may therefore wait for other processes and
/// may use libraries of the device's vendor, unlike host functions of a stream.
///
/// After a failure (FirstFailure), the thread waits for no event and calls no function of a pass.
/// It still raises the signal, so the streams continue with undefined data. After construction,
/// only finish() and the destructor block. Only one thread at a time may use the object.
class HostExchange {
 public:
  static constexpr std::size_t kSlots = 4;

  /// The memory and the events of one pass.
  struct Slot {
    device::Memory staging;  ///< device memory for intermediate values
    device::Memory pinned;
    std::unique_ptr<device::Event> begun, down, returned;
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
  /// A function that receives the pinned memory of the slot. An exception is a failure.
  using Work = std::function<void(std::byte* pinned)>;

  /// Allocates kSlots times `slot_bytes` of device memory and as much pinned memory, and starts the
  /// thread. Failures of the functions and of the device are kept in `failure`. `device` and
  /// `failure` must outlive this object. Throws DeviceError if there is too little memory or the
  /// device has no signals.
  HostExchange(device::Device& device, std::size_t slot_bytes, FirstFailure& failure);
  /// Calls finish().
  ~HostExchange();
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;

  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Returns the least recently used slot. Makes `stream` wait until the previous use of the slot
  /// is complete.
  Slot& next(device::Stream& stream);
  /// Enqueues a pass with `slot`: copies `down` to the slot, calls `work`, and copies `up` from the
  /// slot. The pass starts after the work that was submitted to `stream` before. Records
  /// slot.returned at the end. `stream` does not wait for the pass.
  void pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
            std::span<const Up> up);
  /// Makes `stream` wait until all passes enqueued so far are complete.
  void await_all(device::Stream& stream);
  /// Enqueues a call of `work`, after the work that was submitted to `stream` before and after the
  /// functions of earlier passes. `stream` waits until `work` has returned. Calls `work` even after
  /// a failure.
  void call(device::Stream& stream, std::function<void()> work);
  /// Ends the thread after all enqueued work, and blocks until the streams of this object are idle
  /// or have failed. If the device does not complete the work, the caller must set a failure first.
  /// Nothing may be enqueued afterwards.
  void finish() noexcept;

 private:
  /// A function to be called when `reached` is complete. The signal is then raised to `number`.
  struct Task {
    std::unique_ptr<device::Event> reached;
    std::function<void()> work;
    std::uint32_t number;
  };
  std::uint32_t submit(device::Stream& stream, std::function<void()> work);
  void run(const std::string& label);
  void await(const device::Event& reached);

  device::Device& device_;
  const std::size_t slot_bytes_;
  FirstFailure& failure_;
  std::array<Slot, kSlots> slots_;  // must outlive the streams that use them
  std::unique_ptr<device::Signal> signal_;
  std::unique_ptr<device::Stream> down_, up_;
  std::size_t uses_ = 0;
  std::uint32_t tasks_submitted_ = 0;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::vector<std::unique_ptr<device::Event>> free_events_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace horo::collectives
