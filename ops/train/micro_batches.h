#pragma once

#include <cstddef>
#include <vector>

#include "ops/data/data_loader.h"

namespace horo::ops {

/// Cuts a batch into `parts` of consecutive samples, as even as it goes, the first ones larger by
/// one. Fewer samples than parts leave parts empty. One part is the batch itself, not a copy.
std::vector<Batch> split_batch(Batch batch, std::size_t parts);

}  // namespace horo::ops
