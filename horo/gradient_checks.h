#pragma once

#include <span>
#include <string>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/gradient_sync_options.h"

namespace horo {

/// Throws InvalidArgument, naming the gradient or the option, if a GradientSync cannot be made of
/// them.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options);

/// "weighted = true", ...: the options of a step, equally many whatever they are, for comparisons
/// between ranks.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options);

}  // namespace horo
