#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "horo/base/wait.h"

namespace horo::collectives {

/// Messages of known size between the ranks of a group. Messages from one rank to another with the
/// same tag arrive in order. Each receive has the exact size of its send. Used by one thread at a
/// time.
class PointToPoint {
 public:
  /// Identifies a transfer in flight. 0: none.
  using Ticket = std::uint64_t;

  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Starts to send `bytes` (any 64-bit size, including 0). The memory must stay unchanged until
  /// the transfer is done.
  virtual Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) = 0;
  /// Starts to receive into `bytes`. Do not access the memory until the transfer is done.
  virtual Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) = 0;
  /// Whether the transfer is done. After it has returned true, the ticket is invalid. Makes
  /// progress; does not block.
  virtual bool test(Ticket ticket) = 0;
  /// The policy of waits on this object: that of its transport, unless set_wait_policy() has
  /// changed it.
  const WaitPolicy& wait_policy() const {
    return policy_ != nullptr ? *policy_ : default_wait_policy();
  }
  /// `policy` outlives this.
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

/// Waits for a transfer. A timeout error contains "for <peer_name> <what>". The text is built only
/// if the first tests fail, because building it costs more than a short wait.
inline void await(PointToPoint& peers, PointToPoint::Ticket ticket, std::string_view what,
                  std::string_view peer_name) {
  constexpr int kQuickTests = 16;
  for (int i = 0; i < kQuickTests; ++i)
    if (ticket == 0 || peers.test(ticket)) return;
  peers.wait(ticket, fmt::format("for {} {}", peer_name, what));
}

}  // namespace horo::collectives
