#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/host_exchange.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Collectives of devices on several nodes. They combine the collectives of the devices of a node
/// with exchanges between nodes in host memory, through pinned slots (HostExchange). If all nodes
/// have the same number of ranks, each rank exchanges a shard with the ranks of its column (see
/// NodeLayout). Otherwise the first rank of each node exchanges the data of its node. On one node,
/// all calls are forwarded to the collectives of the node.
///
/// Cost per rank for N bytes and p ranks per node. For nodes of different sizes, use p = 1 for the
/// exchange, which only the first rank of each node performs:
///
/// - allreduce: 2 N (p - 1) / p inside the node, N / p copied down and up, and an allreduce of N /
///   p between nodes. The stages overlap, one slot of every rank at a time.
/// - broadcast: N inside the node, N copied down or up on one rank of it, and a broadcast of N
///   between nodes.
/// - allgather: one broadcast per rank; broadcasts over different columns overlap.
/// - reduce_scatter: the bytes of a reduce_scatter, but one launch inside the node per rank of the
///   job and per slot.
/// - alltoall: all bytes except the own block are copied down, sent as messages and copied up,
///   including those for ranks of the same node.
///
/// 16-bit floats are rounded inside the node as its collectives do, and once per hop between nodes.
/// All ranks end with the same bits in every run.
///
/// A failure between nodes does not fail the streams, on any device. Later results are undefined,
/// also on the other ranks of the node, which receive the error before their streams have passed
/// the collective. Check failure() after a stream has passed a collective.
class HierarchicalDeviceCollectives : public DeviceCollectives {
 public:
  struct Options {
    std::size_t slot_bytes = 256 * 1024;  ///< largest part of a shard that is processed at a time
    std::size_t segment_bytes = 256 * 1024;  ///< of the rings between nodes
    AllreduceSelection allreduce{};          ///< of the columns
  };
  /// The components of one rank.
  struct Levels {
    std::unique_ptr<NodeRing> node_ring;  ///< connects `node`; may be null
    std::unique_ptr<DeviceCollectives>
        node;                             ///< numbered by local rank; null: the node has one rank
    std::unique_ptr<PointToPoint> peers;  ///< connects all ranks; not used by other code
  };

  /// Allocates four slots, rounded up to 1 KiB, in device memory and in pinned memory. Sends no
  /// message. `abort` makes waits on `peers` fail. `device` outlives this object. Throws
  /// DeviceError if there is too little memory.
  HierarchicalDeviceCollectives(device::Device& device, const Topology& topology, Levels levels,
                                const Options& options,
                                std::function<void(const std::string&)> abort);
  /// The work on all streams that used it must be complete, or abort() was called.
  ~HierarchicalDeviceCollectives() override;

  int rank() const override { return topology_.rank; }
  int size() const override { return topology_.size; }
  /// False, because each call continues with the slot after that of the previous call, which a
  /// replayed graph would not do.
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
  /// A group of ranks that exchanges in host memory.
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

  // Whether the collectives of the node suffice, because there is only one node.
  bool is_one_node() const { return layout_.node_count() == 1 && levels_.node != nullptr; }
  bool is_in_node(int rank) const { return layout_.node_of(rank) == layout_.node(); }
  // Returns a local rank, which is equal on all nodes. On each node, the rank with this local rank
  // exchanges the data from or for `rank`.
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
  // Used only in the work of the exchange:
  std::optional<Group> column_, node_, all_;
  std::vector<std::byte> scratch_;
  bool is_over_ = false;  // all ranks of the node have received a failure
  mutable std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  std::unique_ptr<device::Event> ended_;
  HostExchange exchange_;
};

}  // namespace horo::collectives
