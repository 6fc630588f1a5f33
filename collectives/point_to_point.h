#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "horo/base/wait.h"

namespace horo::collectives {

/// Messages of known size between the ranks of a group. Messages from one rank to another with the
/// same tag arrive in the order in which they were sent; each receive names the exact size that was
/// sent. Used by one thread at a time.
class PointToPoint {
 public:
  /// Names a transfer that is under way. 0: none.
  using Ticket = std::uint64_t;

  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Starts sending `bytes` (any 64-bit size, 0 too); the memory must stay unchanged until done.
  virtual Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) = 0;
  /// Starts receiving into `bytes`; the memory must not be touched until done.
  virtual Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) = 0;
  /// Whether the transfer is done; once true, the ticket is used up. Makes progress; does not
  /// block.
  virtual bool test(Ticket ticket) = 0;
  /// How waits on this object go: as its transport's, unless set_wait_policy() said otherwise.
  const WaitPolicy& wait_policy() const {
    return policy_ != nullptr ? *policy_ : default_wait_policy();
  }
  /// `policy` outlives this.
  void set_wait_policy(const WaitPolicy& policy) { policy_ = &policy; }

  /// Blocks until the transfer is done. `what` completes the error text "waited 5min ...".
  void wait(Ticket ticket, std::string_view what) {
    Waiter waiter(wait_policy());
    while (!test(ticket)) waiter.pause(what);
  }

 protected:
  virtual const WaitPolicy& default_wait_policy() const = 0;

 private:
  const WaitPolicy* policy_ = nullptr;
};

}  // namespace horo::collectives
