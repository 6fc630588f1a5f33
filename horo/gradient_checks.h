#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/gradient_sync_options.h"

namespace horo {

class Runtime;

/// Throws InvalidArgument, naming the gradient or the option, if a GradientSync cannot be made of
/// them.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options);

/// Runs `check` before the named operation `operation`, a task that begins with
/// coordinator::require_no_problem() on ranks that pass. If it throws InvalidArgument, this rank
/// takes part in that and every rank throws the text, with the name of the rank.
void check_together(Runtime& runtime, const std::string& operation,
                    const std::function<void()>& check);

/// "weighted = true", ...: the options that describe_plan() does not compare itself, equally many
/// whatever they are, for comparisons between ranks.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options);

}  // namespace horo
