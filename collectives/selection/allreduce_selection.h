#pragma once

#include <cstddef>

#include "collectives/selection/link_cost.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// Returns the predicted seconds of an allreduce of `bytes` over `ranks` if each rank sends one
/// message at a time. In the formulas, n is the number of ranks, N is the number of bytes, p is the
/// largest power of two that is not above n, and L = log2 p. `fold` is the cost of the ranks beyond
/// the first p.
///
///     exchange   (n-1) (alpha + N beta + N gamma)
///     doubling   L (alpha + N beta + N gamma) + fold
///     halving    2L alpha + 2(p-1)/p N beta + (p-1)/p N gamma + fold
///     ring       2(n-1) alpha + 2(n-1)/n N beta
///     fold       0 if n = p, else 2 (alpha + N beta) + N gamma
///
/// The ring reduces a segment while the next segment is in flight, so its formula has no gamma.
/// (Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
/// in MPICH", 2005; Chan et al., "Collective communication: theory, practice, and experience",
/// 2007.)
///
/// `ring_wire` is the size of an element in the messages of the ring, divided by its size in the
/// buffer: 0.5 if float32 is sent as a 16-bit type, and 1 otherwise. It multiplies the beta of the
/// ring. `allreduce` must not be kAuto.
double predicted_seconds(MessageAllreduce allreduce, std::size_t bytes, int ranks,
                         const LinkCost& link, double ring_wire = 1);

/// Returns exchange, doubling or halving, whichever has the smallest prediction. If predictions are
/// equal, returns the first of them in this order.
MessageAllreduce fastest_tree(std::size_t bytes, int ranks, const LinkCost& link);

/// Whether the ring is predicted to be faster than exchange, doubling and halving.
bool is_ring_faster(std::size_t bytes, int ranks, const LinkCost& link, double ring_wire = 1);

/// If AllreduceSelection::setting is kAuto, larger buffers always use the ring, because the staging
/// memory of a tree is at least as large as the buffer.
inline constexpr std::size_t kLargestTreeBytes = 1024 * 1024;

/// The rules by which a job chooses among the allreduces over messages. They must be equal on all
/// ranks. Exchange, doubling and halving give the same bits, so the choice among them may use costs
/// measured at the start of the job. The ring combines in another order. The choice between the
/// ring and the others must therefore be the same in every run. It uses kNominalLink or the costs
/// in a link file.
struct AllreduceSelection {
  MessageAllreduce setting = MessageAllreduce::kAuto;  ///< always chosen if it is not kAuto
  LinkCost link = kNominalLink;           ///< for the choice among exchange, doubling and halving
  LinkCost ring_boundary = kNominalLink;  ///< for the choice between the ring and the others

  bool operator==(const AllreduceSelection&) const = default;
};

/// Returns the allreduce for `bytes` over `ranks`, which is never kAuto. For `ring_wire`, see
/// predicted_seconds().
MessageAllreduce choose_allreduce(const AllreduceSelection& selection, std::size_t bytes, int ranks,
                                  double ring_wire = 1);

/// Returns whether one leader per node should run the allreduce of the whole buffer between nodes.
/// Otherwise, each of `columns` ranks per node runs an allreduce of a shard of the buffer. These
/// ranks share the link of their node, so the prediction for shards multiplies alpha and beta by
/// `columns`. In turn, each rank combines only its shard. Returns true only if the whole buffer
/// does not use the ring. In this case, both ways give the same bits.
bool should_use_leaders(const AllreduceSelection& selection, std::size_t bytes, int nodes,
                        int columns, double ring_wire = 1);

}  // namespace horo::collectives
