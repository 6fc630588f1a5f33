#pragma once

#include <memory>

#include "horo/base/tensor_view.h"
#include "horo/coordinator/messages/messenger.h"

namespace horo {

/// Lets a message of a tensor in device memory pass through pinned host memory: sets the memory and
/// the staging of `entry`. The copy of a sender starts after the work that is now enqueued on the
/// stream `native`; a receiver overwrites the tensor after this work, on a stream of its own.
/// Throws DeviceError if there is too little pinned memory or the stream is being captured.
void stage_message(coordinator::MessageEntry& entry, const ConstTensorView& tensor, void* native);

}  // namespace horo
