#pragma once

#include "horo/base/operation_options.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/messages/messenger.h"

namespace horo {

/// Make the entries of Context::send() and recv() and check the arguments. If an argument is
/// invalid, each function throws InvalidArgument with the name of the message. `topology` is the
/// topology of the job or process set.
coordinator::MessageEntry send_entry(const ConstTensorView& tensor, const SendOptions& options,
                                     const Topology& topology);
coordinator::MessageEntry receive_entry(const TensorView& tensor, const ReceiveOptions& options,
                                        const Topology& topology);

}  // namespace horo
