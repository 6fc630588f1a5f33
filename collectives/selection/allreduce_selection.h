#pragma once

#include <cstddef>

#include "collectives/selection/link_cost.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// Predicted seconds of an allreduce of `bytes` over `ranks`, each of which sends one message at a
/// time (n ranks, N bytes, p the largest power of two of the ranks, L = log2 p):
///
///     exchange   (n-1) (alpha + N beta + N gamma)
///     doubling   L (alpha + N beta + N gamma) + fold
///     halving    2L alpha + 2(p-1)/p N beta + (p-1)/p N gamma + fold
///     ring       2(n-1) alpha + 2(n-1)/n N beta
///     fold       0 if n = p, else 2 (alpha + N beta) + N gamma
///
/// The ring reduces a segment while the next one is in flight, so its gamma is hidden. (Sources:
/// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
/// 2005; Chan et al., "Collective communication: theory, practice, and experience", 2007.)
///
/// `ring_wire`: bytes that the ring sends per byte of the buffer, 0.5 for float32 as 16 bits.
/// `allreduce` is not kAuto.
double predicted_seconds(MessageAllreduce allreduce, std::size_t bytes, int ranks,
                         const LinkCost& link, double ring_wire = 1);

/// Returns the one of exchange, doubling and halving with the smallest prediction; the first in
/// this order if equal.
MessageAllreduce fastest_tree(std::size_t bytes, int ranks, const LinkCost& link);

/// Whether the ring is predicted to be faster than each of those three.
bool is_ring_faster(std::size_t bytes, int ranks, const LinkCost& link, double ring_wire = 1);

/// Larger buffers always use the ring, because the staging of a tree is as large as its buffer.
inline constexpr std::size_t kLargestTreeBytes = 1024 * 1024;

/// The rules by which a job chooses among the allreduces over messages. Equal on all ranks.
/// Exchange, doubling and halving give the same bits, so the choice among them may use costs
/// measured at the start of the job. The ring combines in another order. The choice of the ring
/// must therefore be the same in every run, and uses costs that do not change between runs.
struct AllreduceSelection {
  MessageAllreduce setting = MessageAllreduce::kAuto;  ///< if not kAuto: always this one
  LinkCost link = kNominalLink;                        ///< chooses within the tree family
  LinkCost ring_boundary = kNominalLink;               ///< determines whether the ring is used

  bool operator==(const AllreduceSelection&) const = default;
};

/// Returns the allreduce for `bytes` over `ranks`; never kAuto. For `ring_wire` see
/// predicted_seconds().
MessageAllreduce choose_allreduce(const AllreduceSelection& selection, std::size_t bytes, int ranks,
                                  double ring_wire = 1);

/// For jobs with several ranks per node. Returns whether one leader per node should exchange the
/// whole buffer; otherwise each of `columns` ranks per node exchanges a shard of it. The shards of
/// a node share its link, so their messages cost `columns` alphas, but each rank combines only its
/// shard. Returns true only if the buffer uses a tree; both ways then give the same bits.
bool should_use_leaders(const AllreduceSelection& selection, std::size_t bytes, int nodes,
                        int columns, double ring_wire = 1);

}  // namespace horo::collectives
