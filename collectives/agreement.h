#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

/// Functions by which ranks compare values and share the result of a check. All are collective.
namespace horo::collectives {

/// Returns whether all ranks have the same `signature`.
bool all_equal(std::uint64_t signature, Collectives& collectives);

/// Gathers the bytes of each rank, by rank. The lengths may differ.
std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               Collectives& collectives, const Topology& topology);

/// If any rank has a `problem`, throws InvalidArgument on every rank, with the name and the text of
/// the first such rank.
void require_no_problem(const std::string& problem, Collectives& collectives,
                        const Topology& topology);

/// Returns the result of `work`, which rank 0 runs, on every rank. If `work` throws, every rank
/// throws with the same text: InvalidArgument for InvalidArgument, Error for any other exception.
std::string from_rank_0(const std::function<std::string()>& work, Collectives& collectives,
                        const Topology& topology);

}  // namespace horo::collectives
