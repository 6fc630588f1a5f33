#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/selection/allreduce_selection.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/wire_report.h"

namespace horo::collectives {

/// Collectives over messages: a segmented ring for allreduce (small buffers: one of the trees of
/// collectives/tree), allgather and reduce_scatter, pairs for alltoall, a chain or a binomial tree
/// for broadcast, a dissemination barrier; see those functions for cost and order of combination.
/// The bits of an allreduce depend on the size of the buffer, on where an element lies in it, on
/// the number of ranks and on the selection's ring_boundary, never on timing. Staging memory (8
/// segments; one part more for reduce_scatter) is kept between calls.
class RingCollectives : public Collectives {
 public:
  /// `peers` outlives this and carries nothing else while a collective runs. `segment_bytes`: the
  /// largest pipelining unit. `rank_names`: how each rank of `peers` is called in errors; default
  /// "rank 0", ... `selection`: which allreduce; the same on all ranks.
  RingCollectives(PointToPoint& peers, std::size_t segment_bytes,
                  std::vector<std::string> rank_names = {},
                  const AllreduceSelection& selection = {});

  /// From now on an allreduce of float32 that goes round the ring travels as `wire` (kFloat16 or
  /// kBFloat16; empty: as it is), with what that does added to `report`, which outlives this. All
  /// ranks call it between the same collectives; no message.
  void narrow_the_wire(std::optional<DataType> wire, WireReport& report) {
    wire_ = wire;
    report_ = &report;
  }
  /// Another pipelining unit, above 0. All ranks call it between the same collectives; no message.
  void set_segment_bytes(std::size_t bytes) { segment_bytes_ = bytes; }

  std::string_view name() const override { return "ring"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;
  void broadcast(const ScatteredBuffer& buffer, int root) override;
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override;
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override;
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override;
  void barrier() override;

 protected:
  PointToPoint& peers() { return peers_; }
  std::size_t segment_bytes() const { return segment_bytes_; }
  const std::vector<std::string>& rank_names() const { return rank_names_; }

 private:
  PointToPoint& peers_;
  std::size_t segment_bytes_;
  AllreduceSelection selection_;
  std::vector<std::string> rank_names_;
  SegmentFlow flow_;
  TreeStaging staging_;
  std::optional<DataType> wire_;
  WireReport* report_ = nullptr;
};

}  // namespace horo::collectives
