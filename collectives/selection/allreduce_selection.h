#pragma once

#include <cstddef>

#include "collectives/selection/link_cost.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// Above this the ring is taken whatever is predicted: a tree's staging is as large as its buffer.
inline constexpr std::size_t kLargestTreeBytes = 1024 * 1024;

/// How a job chooses among the allreduces over messages; the same on all ranks. Exchange, doubling
/// and halving give the same bits, so the choice among them may follow what was measured when the
/// job started. The ring combines in another order: whether it is taken must be the same in every
/// run, and follows figures that do not change from run to run.
struct AllreduceSelection {
  MessageAllreduce setting = MessageAllreduce::kAuto;  ///< other than kAuto: always this one
  LinkCost link = kNominalLink;                        ///< chooses within the tree family
  LinkCost ring_boundary = kNominalLink;               ///< decides whether the ring is taken

  bool operator==(const AllreduceSelection&) const = default;
};

/// The allreduce for `bytes` over `ranks`; never kAuto. `ring_wire`: see predicted_seconds().
MessageAllreduce choose_allreduce(const AllreduceSelection& selection, std::size_t bytes, int ranks,
                                  double ring_wire = 1);

/// For a job of several ranks per node: whether one leader per node should exchange the whole
/// buffer, rather than each of `columns` ranks a shard of it. The shards of a node share its link:
/// their messages cost `columns` alphas, but each rank combines its shard alone. Only where the
/// buffer takes a tree, in which case both ways give the same bits.
bool should_use_leaders(const AllreduceSelection& selection, std::size_t bytes, int nodes,
                        int columns, double ring_wire = 1);

}  // namespace horo::collectives
