#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

/// Collective functions by which ranks compare values and share the result of a check.
namespace horo::collectives {

/// Returns whether all ranks have the same `signature`.
bool all_equal(std::uint64_t signature, Collectives& collectives);

/// Returns the bytes that each rank passes, in rank order. The lengths may differ between ranks.
std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               Collectives& collectives, const Topology& topology);

/// If `problem` is not empty on some rank, throws InvalidArgument on every rank. The error contains
/// the name and the text of the lowest such rank.
void require_no_problem(const std::string& problem, Collectives& collectives,
                        const Topology& topology);

/// Runs `work` on rank 0 and returns its result on every rank. If `work` throws a std::exception,
/// every rank throws an error with the same text. The error is InvalidArgument if `work` threw
/// InvalidArgument, and Error otherwise.
std::string from_rank_0(const std::function<std::string()>& work, Collectives& collectives,
                        const Topology& topology);

}  // namespace horo::collectives
