#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"

namespace horo {

/// Throws InvalidArgument, naming the gradient or the option, if the arguments are invalid for a
/// GradientSync. Local; compares nothing between ranks.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options);

/// Returns "weighted = true" and so on: the options that describe_plan() does not describe itself,
/// for comparisons between ranks. The number of texts does not depend on the options.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options);

}  // namespace horo
