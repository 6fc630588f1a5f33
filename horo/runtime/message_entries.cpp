#include "horo/runtime/message_entries.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "horo/base/error.h"

namespace horo {
namespace {

using coordinator::MessageEntry;
using coordinator::Side;

// The field is the option that names the peer.
MessageEntry make_message(Side side, const std::string& name, std::string_view field, int peer,
                          const ConstTensorView& tensor, const Topology& topology) {
  const char* const call = side == Side::kSend ? "send" : "recv";
  HORO_CHECK(peer >= 0 && peer < topology.size,
             fmt::format("{} '{}': options.{} is {}, which is not one of the {} ranks 0 ... {}",
                         call, name, field, peer, topology.size, topology.size - 1));
  HORO_CHECK(tensor.device() == nullptr,
             fmt::format("{} '{}': the tensor is in device memory, and messages between two ranks "
                         "are for host memory only; copy the tensor to host memory first",
                         call, name));
  HORO_CHECK(tensor.data() != nullptr || tensor.count() == 0,
             fmt::format("{} '{}': the tensor has no memory", call, name));
  MessageEntry entry;
  entry.header = {name.empty() ? "message" : name, side, tensor.type(), tensor.shape(), 0};
  entry.peer = peer;
  entry.data = static_cast<std::byte*>(const_cast<void*>(tensor.data()));
  entry.bytes = tensor.bytes();
  return entry;
}

}  // namespace

MessageEntry send_entry(const ConstTensorView& tensor, const SendOptions& options,
                        const Topology& topology) {
  return make_message(Side::kSend, options.name, "to", options.to, tensor, topology);
}

MessageEntry receive_entry(const TensorView& tensor, const ReceiveOptions& options,
                           const Topology& topology) {
  return make_message(Side::kReceive, options.name, "from", options.from, tensor, topology);
}

}  // namespace horo
