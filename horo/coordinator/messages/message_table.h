#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "horo/coordinator/messages/message_header.h"

namespace horo::coordinator {

/// Matches the calls of send() and recv() of this rank with those of its peers. The k-th call of
/// one side with a name matches the k-th call of the other side with that name, between the same
/// two ranks. Names and peers are independent of each other. Not thread-safe.
class MessageTable {
 public:
  /// A call of a peer: its header and, if it is a sender, the values that came with the header.
  struct Remote {
    MessageHeader header;
    std::vector<std::byte> values;
  };

  /// Adds a call of this rank, which the caller identifies by `number`. Returns the call of `peer`
  /// that it matches, if that has arrived. Otherwise, the call of this rank stays in the table.
  std::optional<Remote> add_own(int peer, const MessageHeader& own, std::uint64_t number);
  /// Adds a call of `peer`. Returns the number of the call of this rank that it matches, and leaves
  /// `remote` unchanged. Otherwise, moves `remote` into the table and returns nullopt.
  std::optional<std::uint64_t> add_remote(int peer, Remote& remote);
  /// Removes the calls of this rank that wait for a call of `peer`, and returns their numbers,
  /// ascending.
  std::vector<std::uint64_t> remove_own(int peer);
  /// The peers with calls that no call of this rank matches, ascending.
  std::vector<int> waiting_peers() const;

 private:
  struct Key {
    int peer;
    Side own_side;
    std::string name;
    auto operator<=>(const Key&) const = default;
  };
  // At most one of the queues has elements. A key without elements is removed, because a program
  // may use a new name for each message.
  struct Waiting {
    std::deque<std::uint64_t> own;
    std::deque<Remote> remote;
  };
  std::map<Key, Waiting> waiting_;
};

}  // namespace horo::coordinator
