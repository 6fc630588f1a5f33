#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/first_failure.h"
#include "collectives/device/host_exchange.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Collectives of devices on several nodes. Inside a node, they use the collectives of its devices,
/// except in alltoall. Between nodes, they exchange data in host memory, through pinned slots
/// (HostExchange), whose thread makes all calls of `Levels::peers`. If all nodes have the same
/// number of ranks, each rank exchanges a shard with the ranks of its column (see NodeLayout).
/// Otherwise the first rank of each node exchanges all data of its node. In alltoall, each rank
/// exchanges its own blocks. On one node with several ranks, the collectives are forwarded to those
/// of the node.
///
/// The list shows the cost per rank for N bytes and p ranks on each node. "Down" is the copy from
/// the device to the host, and "up" is the copy back. If the nodes have different numbers of ranks,
/// the first rank of each node does all copies down and up and all exchanges between nodes, except
/// in alltoall. For these, p is then 1.
///
/// - allreduce: 2 N (p - 1) / p inside the node, N / p copied down and up, and an allreduce of N /
///   p between nodes. Copies and messages of different slots overlap.
/// - broadcast: N inside the node, N copied down or up on one rank of each node, and a broadcast of
///   N between nodes.
/// - allgather: one broadcast per rank of the job. Broadcasts over different columns overlap.
/// - reduce_scatter: for the part of each rank of the job, a reduction inside each node to one
///   rank, and then a reduction over these ranks. A slot takes one collective inside the node, or
///   two on the node of the part's rank if the nodes have different numbers of ranks.
/// - alltoall: all blocks of a rank, except its block for itself, are copied down, sent as messages
///   and copied up. This includes the blocks for ranks of the same node.
///
/// The collectives of the node determine how 16-bit floats are rounded inside the node. Between
/// nodes, 16-bit floats are rounded once per hop. An allreduce gives all ranks the same bits.
///
/// A failure between nodes does not fail the streams, whatever the kind of device. The results of
/// this and of later collectives are then undefined on all ranks of the node. The other ranks of
/// the node receive the error before their streams have executed the collective. The caller must
/// check failure() after a stream has executed a collective. Once failure() has an error, a new
/// collective throws CommunicationError.
class HierarchicalDeviceCollectives : public DeviceCollectives {
 public:
  struct Options {
    /// The largest part of a shard that is processed at a time. Each part costs the latency of two
    /// copies, of a message and of waking a thread, so small parts are slow. Several parts of a
    /// shard overlap.
    std::size_t slot_bytes = std::size_t{2} << 20;
    std::size_t segment_bytes = 256 * 1024;  ///< largest segment of the rings
    AllreduceSelection allreduce{};          ///< selects the allreduce over a column
  };
  /// The components of one rank.
  struct Levels {
    std::unique_ptr<NodeRing> node_ring;  ///< used by `node`; may be null
    std::unique_ptr<DeviceCollectives>
        node;                             ///< numbered by local rank; null if the node has one rank
    std::unique_ptr<PointToPoint> peers;  ///< connects all ranks; no other code may use it
  };

  /// Allocates HostExchange::kSlots slots in device memory and in pinned memory. The size of a slot
  /// is the larger of options.slot_bytes and 128 bytes per rank of the job, rounded up to a
  /// multiple of 1 KiB. Sends no message. `abort` must make waits on `peers` fail. `device` must
  /// outlive this object. Throws DeviceError if there is too little memory.
  HierarchicalDeviceCollectives(device::Device& device, const Topology& topology, Levels levels,
                                const Options& options,
                                std::function<void(const std::string&)> abort);
  /// Before the destruction, the work on all streams that used this object must be complete, or the
  /// caller must have called abort().
  ~HierarchicalDeviceCollectives() override;

  int rank() const override { return topology_.rank; }
  int size() const override { return topology_.size; }
  /// Returns false. A call uses the slots that follow those of the previous call, but each launch
  /// of a graph would use the same slots.
  bool can_be_captured() const override { return false; }
  void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                 device::Stream& stream) override;
  void allreduce_parts(std::span<const Part> parts, DataType type, ReduceOp op,
                       device::Stream& stream) override;
  void broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) override;
  void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                 device::Stream& stream) override;
  void reduce_scatter(const void* input, DataType type, std::span<const std::size_t> count_of,
                      void* output, ReduceOp op, device::Stream& stream) override;
  void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                std::span<const std::size_t> bytes_from, device::Stream& stream) override;
  std::optional<std::string> failure() const override;
  void abort(const std::string& reason) noexcept override;

 private:
  using Slot = HostExchange::Slot;
  using Down = HostExchange::Down;
  using Up = HostExchange::Up;
  /// A group of ranks that exchanges data in host memory.
  struct Group {
    Group(PointToPoint& peers, const Topology& topology, const std::vector<int>& ranks,
          int tag_offset, const Options& options)
        : members(peers, ranks, tag_offset),
          ring(members, options.segment_bytes, names_of(topology, ranks), options.allreduce) {}
    SubGroup members;
    RingCollectives ring;
  };
  struct Copy {
    std::byte* data;
    std::size_t bytes;
    int root;
  };

  // Whether all calls are forwarded to the collectives of the node, because there is only one node.
  bool is_one_node() const { return layout_.node_count() == 1 && levels_.node != nullptr; }
  bool is_in_node(int rank) const { return layout_.node_of(rank) == layout_.node(); }
  // Returns the local rank of the ranks that exchange the data from or for `rank`, one on each
  // node.
  int column_of(int rank) const { return is_even_ ? layout_.local_rank_of(rank) : 0; }
  bool exchanges_for(int rank) const { return column_of(rank) == layout_.local_rank(); }
  std::size_t slot_count(DataType type) const;
  std::vector<std::size_t> shards(std::size_t count) const;
  std::vector<std::size_t> all_to(int local_rank, std::size_t size) const;

  void begin(device::Stream& stream);
  void end(device::Stream& stream);
  Slot& reduce_part(std::byte* data, DataType type, std::size_t count, ReduceOp op,
                    device::Stream& stream);
  void gather_part(Slot& slot, std::byte* data, DataType type, std::size_t count,
                   device::Stream& stream);
  void distribute(std::span<const Copy> copies, device::Stream& stream);
  void exchange(const Copy& copy, device::Stream& stream);
  void reduce_to(int rank, const std::byte* input, DataType type, std::size_t count,
                 std::byte* output, ReduceOp op, device::Stream& stream);
  void reduce_column(int rank, std::byte* values, DataType type, std::size_t count, ReduceOp op);
  void hand_over(int rank, Slot& slot, std::byte* output, std::size_t bytes,
                 device::Stream& stream);
  void agree_in_node();

  const Topology topology_;
  const NodeLayout layout_;
  const bool is_even_;
  const std::function<void(const std::string&)> abort_;
  Levels levels_;
  // After construction, only the thread of exchange_ uses the following members:
  std::optional<Group> column_, node_, all_;
  std::vector<std::byte> scratch_;
  bool is_over_ = false;  // whether agree_in_node() sends no more messages
  FirstFailure failure_;
  std::unique_ptr<device::Event> ended_;
  HostExchange exchange_;
};

}  // namespace horo::collectives
