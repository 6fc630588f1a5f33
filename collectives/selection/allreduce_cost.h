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
/// The ring reduces a segment while the next travels, so its gamma is hidden. (Sources: Thakur,
/// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005;
/// Chan et al., "Collective communication: theory, practice, and experience", 2007.)
///
/// `ring_wire`: bytes that the ring sends per byte of the buffer, 0.5 for float32 as 16 bits.
/// `allreduce` is not kAuto.
double predicted_seconds(MessageAllreduce allreduce, std::size_t bytes, int ranks,
                         const LinkCost& link, double ring_wire = 1);

/// The one of exchange, doubling and halving that is predicted to be fastest; of equals the first.
MessageAllreduce fastest_tree(std::size_t bytes, int ranks, const LinkCost& link);

/// Whether the ring is predicted to be faster than each of those three.
bool is_ring_faster(std::size_t bytes, int ranks, const LinkCost& link, double ring_wire = 1);

}  // namespace horo::collectives
