// The part of Messenger that moves the values of matched calls.
#include <fmt/format.h>

#include <cstring>

#include "horo/base/error.h"
#include "horo/coordinator/messages/messenger.h"

namespace horo::coordinator {

// Whether the values of a call travel with the header of its sender. Values that a device is still
// copying do not.
bool Messenger::is_inline(const MessageEntry& sender) {
  return sender.bytes == 0 || (sender.bytes <= kLargestInline && sender.staging == nullptr);
}

// Both ranks have both headers, so they decide alike. Receives have tags of their own, because the
// two ranks may match several messages in different orders.
void Messenger::match(std::uint64_t number, const MessageTable::Remote& remote) {
  Open& open = open_.at(number);
  MessageEntry& entry = open.entry;
  const bool is_sender = entry.header.side == Side::kSend;
  const std::string mismatch =
      mismatch_text(route_of(entry), is_sender ? entry.header : remote.header,
                    is_sender ? remote.header : entry.header, topology_);
  if (!mismatch.empty()) {
    recorder_.note_error(mismatch);
    return complete(number, std::make_exception_ptr(MismatchError(mismatch)));
  }
  const std::int64_t now = observe::flight_clock();
  entry.flight.start(now, now);
  open.is_matched = true;
  if (is_sender) {
    if (is_inline(entry)) return complete(number, nullptr);
    open.receiver_tag = remote.header.tag;
    filling_.push_back(number);
    return;
  }
  if (entry.bytes == 0) return complete(number, nullptr);
  if (remote.values.empty()) {
    open.ticket = peers_->start_receive(entry.peer, entry.header.tag, {entry.data, entry.bytes});
    transfers_.push_back(number);
    return;
  }
  if (remote.values.size() != entry.bytes)
    throw CommunicationError(fmt::format("{}: {} bytes arrived instead of {}",
                                         route_of(entry).describe(topology_), remote.values.size(),
                                         entry.bytes));
  std::memcpy(entry.data, remote.values.data(), entry.bytes);
  finish_receive(number);
}

void Messenger::finish_receive(std::uint64_t number) {
  if (open_.at(number).entry.staging == nullptr) return complete(number, nullptr);
  emptying_.push_back(number);
}

// Copies between host memory and devices.
bool Messenger::advance_copies() {
  const std::size_t started = std::erase_if(filling_, [&](std::uint64_t number) {
    Open& open = open_.at(number);
    const MessageEntry& entry = open.entry;
    if (entry.staging != nullptr && !entry.staging->is_filled()) return false;
    open.ticket = peers_->start_send(entry.peer, open.receiver_tag, {entry.data, entry.bytes});
    transfers_.push_back(number);
    return true;
  });
  std::vector<std::uint64_t> done;
  std::erase_if(emptying_, [&](std::uint64_t number) {
    if (!open_.at(number).entry.staging->is_emptied()) return false;
    done.push_back(number);
    return true;
  });
  for (const std::uint64_t number : done) complete(number, nullptr);
  return started > 0 || !done.empty();
}

bool Messenger::advance_transfers() {
  std::vector<std::uint64_t> done;
  std::erase_if(transfers_, [&](std::uint64_t number) {
    if (!peers_->test(open_.at(number).ticket)) return false;
    done.push_back(number);
    return true;
  });
  for (const std::uint64_t number : done) {
    if (open_.at(number).entry.header.side == Side::kReceive)
      finish_receive(number);
    else
      complete(number, nullptr);
  }
  return !done.empty();
}

}  // namespace horo::coordinator
