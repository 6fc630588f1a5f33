#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/watchdog/long_waits.h"

namespace horo::plan {

/// Makes an update of a plan wait for all ranks, and detects that some ranks exchange another step
/// instead.
///
/// A rank that calls update() sends an announcement with its number of complete steps to all other
/// ranks, and waits until all of them have announced the same number. A rank that waits for long in
/// the exchange of a bucket polls for announcements. If another rank announces an update after the
/// same number of steps, that rank will never take part in this exchange, so both ranks throw. A
/// step without an update sends no messages, and polls only in waits that are long enough to sleep.
/// Used by one thread at a time.
class PlanUpdateRendezvous {
 public:
  /// `topology` and `long_waits` must outlive this object.
  PlanUpdateRendezvous(std::string plan_name, const Topology& topology,
                       std::unique_ptr<collectives::MessageChannel> channel,
                       observe::LongWaits& long_waits);

  /// Counts a complete step.
  void end_step() { ++steps_; }
  /// The number of complete steps.
  std::uint64_t steps() const { return steps_; }
  /// A wait in the exchange of the current step calls this function from time to time. Throws
  /// MismatchError if another rank updates the plan instead.
  void check_while_exchanging();
  /// Returns when all ranks have called this function after the same number of steps. Throws
  /// MismatchError if a rank exchanges instead. After the timeout of `policy`, withdraws the
  /// announcement, so that the other ranks no longer regard this rank as ready, and throws
  /// CommunicationError. After `stall_warning`, notes the missing ranks in LongWaits.
  void wait_for_all(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning);

 private:
  enum class Intent : std::uint64_t { kRenegotiate, kExchange, kWithdraw };
  struct Message {
    Intent intent = Intent::kRenegotiate;
    std::uint64_t steps = 0;
    std::uint64_t attempt = 0;
  };
  void announce(Intent intent);
  void note(int rank, const Message& message);
  void receive();
  void await_all(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning);
  bool holds(int rank, Intent intent) const;
  std::string list_missing() const;
  void end_attempt();
  [[noreturn]] void give_up(const std::string& text);

  std::string name_;
  const Topology& topology_;
  std::unique_ptr<collectives::MessageChannel> channel_;
  observe::LongWaits& long_waits_;
  std::uint64_t steps_ = 0;
  // The number of complete and failed updates. An update that ends on this rank ends on all ranks,
  // so messages with a lower `attempt` are outdated.
  std::uint64_t attempt_ = 0;
  std::uint32_t looks_ = 0;
  // The messages of each rank for this attempt. A rank that is ahead may also have sent messages
  // for later attempts.
  std::vector<std::vector<Message>> messages_;
};

}  // namespace horo::plan
