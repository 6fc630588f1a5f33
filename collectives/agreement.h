#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

/// Collective functions that compare values of all ranks or share bytes, results and errors among
/// all ranks.
namespace horo::collectives {

/// Returns whether all ranks have the same `signature`.
bool all_equal(std::uint64_t signature, Collectives& collectives);

/// Returns one vector for each rank, in rank order, which holds the `bytes` of that rank. The
/// lengths may differ between ranks.
std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               Collectives& collectives, const Topology& topology);

/// Returns the text of the lowest rank whose `problem` is not empty. Returns an empty text if
/// `problem` is empty on all ranks.
std::string first_problem(const std::string& problem, Collectives& collectives,
                          const Topology& topology);

/// If `problem` is not empty on some rank, throws InvalidArgument on every rank. The error contains
/// the name and the `problem` of the lowest such rank.
void require_no_problem(const std::string& problem, Collectives& collectives,
                        const Topology& topology);

/// Runs `work` on rank 0 and returns the result of `work` on every rank. If `work` throws a
/// std::exception, every rank throws an error with the same text. The error is InvalidArgument if
/// `work` threw InvalidArgument, and Error otherwise.
std::string from_rank_0(const std::function<std::string()>& work, Collectives& collectives,
                        const Topology& topology);

}  // namespace horo::collectives
