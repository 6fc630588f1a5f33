#pragma once

#include <functional>
#include <string>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo {

/// What rank 0 makes of `work`, on every rank; the others do not run it. InvalidArgument that it
/// throws is thrown, with the same text, on every rank. Collective.
std::string from_rank_0(const std::function<std::string()>& work,
                        collectives::Collectives& collectives, const Topology& topology);

}  // namespace horo
