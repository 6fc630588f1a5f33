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

/// The device in whose memory the gradients are, or null for host memory. The gradients must have
/// passed check_gradients().
device::Device* device_of(std::span<const NamedTensor> gradients);

/// Returns texts for the options that describe_plan() does not cover, such as "weighted = true",
/// and for the kind of memory of the gradients. There is no text for `name`. The ranks compare the
/// texts. If the numbers of texts differ, an earlier text differs, too.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options,
                                               const device::Device* device);

}  // namespace horo
