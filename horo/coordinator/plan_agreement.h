#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"
#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// Compares `description` between all ranks: a 64-bit signature is reduced (min and max); only if
/// it differs are the descriptions gathered, and MismatchError with the same text is thrown on
/// every rank. Collective.
void agree_on_plan(const std::string& plan_name, std::span<const Request> description,
                   collectives::Collectives& collectives, const Topology& topology);

/// Throws InvalidArgument, on every rank, with the first rank that has a `problem` and its text, if
/// not all are empty. Collective.
void require_no_problem(const std::string& problem, collectives::Collectives& collectives,
                        const Topology& topology);

/// Gathers each rank's bytes (lengths may differ). Collective.
std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               collectives::Collectives& collectives,
                                               const Topology& topology);

/// Whether all ranks have the same `signature`. Collective.
bool all_equal(std::uint64_t signature, collectives::Collectives& collectives);

}  // namespace horo::coordinator
