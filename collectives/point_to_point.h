#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "horo/base/wait.h"

namespace horo::collectives {

/// Sends messages of known size between the ranks of a group. Messages from one rank to another
/// with the same tag are received in the order in which they were sent. The size of each receive
/// must equal the size of the matching send. Only one thread at a time may use the object.
class PointToPoint {
 public:
  /// Identifies a transfer in flight. The value is 0 if the transfer was complete when it was
  /// started.
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
  /// Advances transfers without blocking. Returns whether the transfer is done. If it is, the
  /// ticket is no longer valid. Always returns true for ticket 0.
  virtual bool test(Ticket ticket) = 0;
  /// The policy of waits on this object: the argument of the latest set_wait_policy(), or
  /// default_wait_policy() if there was no call.
  const WaitPolicy& wait_policy() const {
    return policy_ != nullptr ? *policy_ : default_wait_policy();
  }
  /// Sets the policy of later waits on this object. `policy` must outlive this object.
  void set_wait_policy(const WaitPolicy& policy) { policy_ = &policy; }

  /// Blocks until the transfer is done or the wait ends with an error (see WaitPolicy). `what`
  /// completes the error text "waited 5 min ...".
  void wait(Ticket ticket, std::string_view what) {
    Waiter waiter(wait_policy());
    while (!test(ticket)) waiter.pause(what);
  }

 protected:
  virtual const WaitPolicy& default_wait_policy() const = 0;

 private:
  const WaitPolicy* policy_ = nullptr;
};

/// Waits for a transfer, like PointToPoint::wait(). A timeout error contains "for <peer_name>
/// <what>". Builds this text only after the first tests have failed, because a short wait takes
/// less time than building the text.
inline void await(PointToPoint& peers, PointToPoint::Ticket ticket, std::string_view what,
                  std::string_view peer_name) {
  constexpr int kQuickTests = 16;
  for (int i = 0; i < kQuickTests; ++i)
    if (ticket == 0 || peers.test(ticket)) return;
  peers.wait(ticket, fmt::format("for {} {}", peer_name, what));
}

}  // namespace horo::collectives
