#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"

namespace horo {

/// Throws InvalidArgument, naming the gradient or the option, if the arguments are invalid for a
/// GradientSync. Not collective.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options);

/// Returns one text per option that describe_plan() omits, such as "weighted = true". The ranks
/// compare the texts. The number of texts does not depend on the options.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options);

}  // namespace horo
