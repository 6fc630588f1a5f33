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

/// Collectives over messages. allgather() and reduce_scatter() use a segmented ring. allreduce()
/// uses the ring or an algorithm of collectives/tree, whichever choose_allreduce() returns.
/// alltoall() exchanges blocks by pairs, broadcast() uses a chain or a binomial tree, and barrier()
/// is a dissemination barrier. For the cost and the order of combination, see ring_algorithms.h,
/// ring_allreduce.h and collectives/tree.
///
/// The bits of an allreduce depend on the size of the buffer, the position of an element in the
/// buffer, the number of ranks, the wire type, and `setting` and `ring_boundary` of the selection.
/// They do not depend on timing.
///
/// Staging memory is kept between calls. The ring and the chain keep 8 segments. The tree
/// allreduces, the binomial broadcast and reduce_scatter share memory of the largest size that one
/// of their calls has needed so far.
class RingCollectives : public Collectives {
 public:
  /// `peers` must outlive this object, and no other code may use `peers` while a collective runs.
  /// `segment_bytes` is the largest size of a segment and must be above 0. `rank_names` has one
  /// name per rank of `peers`, for error texts. If `rank_names` is empty, the names are "rank 0",
  /// "rank 1", ... `selection` determines the algorithm of allreduce() and must be equal on all
  /// ranks.
  RingCollectives(PointToPoint& peers, std::size_t segment_bytes,
                  std::vector<std::string> rank_names = {},
                  const AllreduceSelection& selection = {});

  /// Sets the type in which later ring allreduces send float32 values: kFloat16, kBFloat16, or
  /// float32 if `wire` is empty. If `wire` is set, the figures of these allreduces are added to
  /// `report`, which must outlive this object. All ranks must call this function between the same
  /// collectives. Sends no message.
  void set_wire_type(std::optional<DataType> wire, WireReport& report) {
    wire_ = wire;
    report_ = &report;
  }
  /// Changes the largest size of a segment, which must be above 0. All ranks must call this
  /// function between the same collectives. Sends no message.
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
