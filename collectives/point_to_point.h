#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "horo/base/wait.h"

namespace horo::collectives {

/// Sends messages of known size between the ranks of a group. Messages from one rank to another
/// with the same tag arrive in order. The size of each receive must equal the size of the matching
/// send. Only one thread at a time may use the object.
class PointToPoint {
 public:
  /// Identifies a transfer in flight. 0 if the transfer was complete at once.
  using Ticket = std::uint64_t;

  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Starts to send `bytes`, which may have any 64-bit size, including 0. The caller must not
  /// change the memory until the transfer is done.
  virtual Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) = 0;
  /// Starts to receive into `bytes`. The caller must not access the memory until the transfer is
  /// done.
  virtual Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) = 0;
  /// Advances transfers without blocking. Returns true if the transfer is done, which makes the
  /// ticket invalid. Always returns true for ticket 0.
  virtual bool test(Ticket ticket) = 0;
  /// The policy of waits on this object. It is the policy of the transport, unless
  /// set_wait_policy() has set another one.
  const WaitPolicy& wait_policy() const {
    return policy_ != nullptr ? *policy_ : default_wait_policy();
  }
  /// `policy` must outlive this object.
  void set_wait_policy(const WaitPolicy& policy) { policy_ = &policy; }

  /// Blocks until the transfer is done. `what` completes the error text "waited 5 min ...".
  void wait(Ticket ticket, std::string_view what) {
    Waiter waiter(wait_policy());
    while (!test(ticket)) waiter.pause(what);
  }

 protected:
  virtual const WaitPolicy& default_wait_policy() const = 0;

 private:
  const WaitPolicy* policy_ = nullptr;
};

/// Waits for a transfer. A timeout error contains "for <peer_name> <what>". Builds this text only
/// if the first tests fail, because a short wait takes less time than building the text.
inline void await(PointToPoint& peers, PointToPoint::Ticket ticket, std::string_view what,
                  std::string_view peer_name) {
  constexpr int kQuickTests = 16;
  for (int i = 0; i < kQuickTests; ++i)
    if (ticket == 0 || peers.test(ticket)) return;
  peers.wait(ticket, fmt::format("for {} {}", peer_name, what));
}

}  // namespace horo::collectives
