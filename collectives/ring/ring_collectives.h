#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/selection/allreduce_selection.h"
#include "collectives/tree/tree_exchange.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"

namespace horo::collectives {

/// Collectives over messages. Allreduce, allgather and reduce_scatter use a segmented ring; an
/// allreduce of a small buffer uses one of the trees of collectives/tree. Alltoall exchanges by
/// pairs, broadcast uses a chain or a binomial tree, and the barrier is a dissemination barrier.
/// See those functions for cost and order of combination. The bits of an allreduce depend on the
/// size of the buffer, the position of an element in it, the number of ranks and the selection's
/// ring_boundary, but not on timing. Staging memory is kept between calls: 8 segments for the ring,
/// and as much as the largest tree or reduce_scatter so far needed.
class RingCollectives : public Collectives {
 public:
  /// `peers` outlives this object and is not used for anything else while a collective runs.
  /// `segment_bytes`: the largest segment. `rank_names`: the names of the ranks of `peers` in
  /// errors; default "rank 0", ... `selection`: selects the allreduce; equal on all ranks.
  RingCollectives(PointToPoint& peers, std::size_t segment_bytes,
                  std::vector<std::string> rank_names = {},
                  const AllreduceSelection& selection = {});

  /// Sets the type (kFloat16 or kBFloat16; empty: float32) in which later ring allreduces of
  /// float32 are sent. Their figures are added to `report`, which outlives this object. All ranks
  /// call it between the same collectives. Sends no message.
  void set_wire_type(std::optional<DataType> wire, WireReport& report) {
    wire_ = wire;
    report_ = &report;
  }
  /// Changes the segment size; above 0. All ranks call it between the same collectives. Sends no
  /// message.
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
