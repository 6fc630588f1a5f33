#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"

namespace horo {

/// Throws InvalidArgument if the gradients or the options are not valid for a GradientSync. Not
/// collective.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options);

/// Returns one text for each option that describe_plan() does not cover, such as "weighted = true".
/// There is no text for `name`. The ranks compare the texts. The number of texts does not depend on
/// the options.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options);

}  // namespace horo
