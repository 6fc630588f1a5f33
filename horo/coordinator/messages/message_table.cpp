#include "horo/coordinator/messages/message_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace horo::coordinator {

std::optional<MessageTable::Remote> MessageTable::add_own(int peer, const MessageHeader& own,
                                                          std::uint64_t number) {
  const auto place = waiting_.try_emplace({peer, own.side, own.name}).first;
  Waiting& waiting = place->second;
  if (waiting.remote.empty()) {
    waiting.own.push_back(number);
    return std::nullopt;
  }
  Remote remote = std::move(waiting.remote.front());
  waiting.remote.pop_front();
  if (waiting.remote.empty()) waiting_.erase(place);
  return remote;
}

std::optional<std::uint64_t> MessageTable::add_remote(int peer, Remote& remote) {
  const auto place =
      waiting_.try_emplace({peer, other_side(remote.header.side), remote.header.name}).first;
  Waiting& waiting = place->second;
  if (waiting.own.empty()) {
    waiting.remote.push_back(std::move(remote));
    return std::nullopt;
  }
  const std::uint64_t number = waiting.own.front();
  waiting.own.pop_front();
  if (waiting.own.empty()) waiting_.erase(place);
  return number;
}

std::vector<std::uint64_t> MessageTable::remove_own(int peer) {
  std::vector<std::uint64_t> numbers;
  std::erase_if(waiting_, [&](auto& entry) {
    auto& [key, waiting] = entry;
    if (key.peer != peer || waiting.own.empty()) return false;
    std::ranges::copy(waiting.own, std::back_inserter(numbers));
    return true;
  });
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<int> MessageTable::waiting_peers() const {
  std::vector<int> peers;
  for (const auto& [key, waiting] : waiting_)
    if (!waiting.remote.empty() && (peers.empty() || peers.back() != key.peer))
      peers.push_back(key.peer);
  return peers;
}

}  // namespace horo::coordinator
