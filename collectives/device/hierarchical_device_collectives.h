#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/host_exchange.h"
#include "collectives/device/node_ring.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Collectives of devices on several nodes, composed of others: those of the node's devices, and
/// between nodes horo's own, in host memory, through pinned slots (HostExchange). It moves no bytes
/// itself. Where nodes have equally many ranks, each rank exchanges a shard with those of its local
/// rank on the other nodes (NodeLayout's column); otherwise the first rank of each node does, for
/// the whole node. On one node everything is the node's own.
///
/// Cost for N bytes and p ranks in each node, of a rank (where nodes have unequally many, p = 1 but
/// for what happens in the node, and only the first rank of a node has all that follows it):
/// - allreduce: 2 N (p - 1) / p in the node, N / p down and up, an allreduce of N / p between them;
///   all of these go on beside each other, a slot of every rank at a time.
/// - broadcast: N in the node, down or up on one rank of it, and a broadcast of N between nodes.
/// - allgather: a broadcast for each rank; those through different columns go beside each other.
/// - reduce_scatter: the bytes of one, but in the node a launch for each rank of the job and slot.
/// - alltoall: all bytes but the own go down, as messages, up; also those to ranks of the node.
///
/// 16-bit floats are rounded in the node as its collectives do it, and once per hop between nodes.
/// All ranks end with the same bits, and runs do not differ.
///
/// What fails between nodes does not end the streams, on no device: what follows has any values,
/// also on the other ranks of the node, which hear of it before their streams have passed the
/// collective. So look at failure() once a stream has.
class HierarchicalDeviceCollectives : public DeviceCollectives {
 public:
  struct Options {
    std::size_t slot_bytes = 256 * 1024;     ///< how much of a shard goes through at a time
    std::size_t segment_bytes = 256 * 1024;  ///< of the rings between nodes
    AllreduceSelection allreduce{};          ///< of the columns
  };
  /// What it is composed of, on one rank.
  struct Levels {
    std::unique_ptr<NodeRing> node_ring;      ///< of which `node` is made; may be null
    std::unique_ptr<DeviceCollectives> node;  ///< by local rank; null: the node has one rank
    std::unique_ptr<PointToPoint> peers;      ///< among all ranks; carries nothing else
  };

  /// Nothing is sent. Takes four slots, rounded up to 1 KiB, of the device's memory and of pinned
  /// memory. `abort` ends the waits of `peers`; `device` outlives this. Throws DeviceError if there
  /// is too little memory.
  HierarchicalDeviceCollectives(device::Device& device, const Topology& topology, Levels levels,
                                const Options& options,
                                std::function<void(const std::string&)> abort);
  /// The streams it was used with are done, or it was aborted.
  ~HierarchicalDeviceCollectives() override;

  int rank() const override { return topology_.rank; }
  int size() const override { return topology_.size; }
  /// The slots between nodes go from call to call.
  bool can_be_captured() const override { return false; }
  void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
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
  /// A group of ranks, in host memory.
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

  // The node's collectives are all that there is.
  bool is_one_node() const { return layout_.node_count() == 1 && levels_.node != nullptr; }
  bool is_in_node(int rank) const { return layout_.node_of(rank) == layout_.node(); }
  // The local rank of those that exchange what comes from `rank` or goes to it.
  int column_of(int rank) const { return is_even_ ? layout_.local_rank_of(rank) : 0; }
  bool exchanges_for(int rank) const { return column_of(rank) == layout_.local_rank(); }
  std::size_t slot_count(DataType type) const;
  std::vector<std::size_t> shards(std::size_t count) const;
  std::vector<std::size_t> all_to(int local_rank, std::size_t size) const;

  void begin(device::Stream& stream);
  void end(device::Stream& stream);
  void pass(Slot& slot, device::Stream& stream, std::span<const Down> down, HostExchange::Work work,
            std::span<const Up> up);
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
  void fail(const std::string& why);
  bool has_failed() const;

  const Topology topology_;
  const NodeLayout layout_;
  const bool is_even_;
  const std::function<void(const std::string&)> abort_;
  Levels levels_;
  // In work of the exchange alone:
  std::optional<Group> column_, node_, all_;
  std::vector<std::byte> scratch_;
  bool is_over_ = false;  // all of the node know of a failure
  mutable std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  std::unique_ptr<device::Event> ended_;
  HostExchange exchange_;
};

}  // namespace horo::collectives
