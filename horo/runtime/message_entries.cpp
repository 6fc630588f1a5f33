#include "horo/runtime/message_entries.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "horo/base/error.h"
#include "horo/coordinator/allreduce_checks.h"
#include "horo/device/device.h"
#include "horo/runtime/device_message.h"

namespace horo {
namespace {

using coordinator::MessageEntry;
using coordinator::Side;

// The field is the option that names the peer.
MessageEntry make_message(Side side, const std::string& name, std::string_view field, int peer,
                          const ConstTensorView& tensor, void* stream, const Topology& topology) {
  const char* const call = side == Side::kSend ? "send" : "recv";
  HORO_CHECK(peer >= 0 && peer < topology.size,
             fmt::format("{} '{}': options.{} is {}, which is not one of the {} ranks 0 ... {}",
                         call, name, field, peer, topology.size, topology.size - 1));
  const std::string what = fmt::format("{} '{}'", call, name);
  if (tensor.device() != nullptr) {
    HORO_CHECK(tensor.count() == 0 || tensor.device()->owns(tensor.data()),
               fmt::format("{}: the tensor does not lie in memory of {}", what,
                           tensor.device()->describe()));
    check_stream(what, *tensor.device(), stream);
  } else {
    HORO_CHECK(stream == nullptr,
               what + ": options.stream is set, but the tensor is in host memory; leave it null");
  }
  HORO_CHECK(tensor.data() != nullptr || tensor.count() == 0, what + ": the tensor has no memory");
  MessageEntry entry;
  entry.header = {name.empty() ? "message" : name, side, tensor.type(), tensor.shape(), 0};
  entry.peer = peer;
  entry.data = static_cast<std::byte*>(const_cast<void*>(tensor.data()));
  entry.bytes = tensor.bytes();
  if (tensor.device() != nullptr) stage_message(entry, tensor, stream);
  return entry;
}

}  // namespace

MessageEntry send_entry(const ConstTensorView& tensor, const SendOptions& options,
                        const Topology& topology) {
  return make_message(Side::kSend, options.name, "to", options.to, tensor, options.stream,
                      topology);
}

MessageEntry receive_entry(const TensorView& tensor, const ReceiveOptions& options,
                           const Topology& topology) {
  return make_message(Side::kReceive, options.name, "from", options.from, tensor, options.stream,
                      topology);
}

}  // namespace horo
