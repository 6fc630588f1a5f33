#pragma once

#include "collectives/collectives.h"
#include "horo/base/environment.h"
#include "horo/base/topology.h"

namespace horo {

/// Compares the settings that must be the same on all ranks. Collective; `collectives` must not
/// depend on any of them. Throws MismatchError, with the same text on every rank, that names the
/// setting, the first rank that differs from rank 0, and both values.
void check_settings_agree(const ParsedEnvironment& environment,
                          collectives::Collectives& collectives, const Topology& topology);

}  // namespace horo
