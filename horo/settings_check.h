#pragma once

#include "collectives/transport.h"
#include "horo/base/environment.h"

namespace horo {

/// Compares the settings that must be the same on all ranks. Collective, and independent of every
/// setting. Throws MismatchError, with the same text on every rank, that names the setting, the
/// first rank that differs from rank 0, and both values.
void check_settings_agree(const ParsedEnvironment& environment, collectives::Transport& transport);

}  // namespace horo
