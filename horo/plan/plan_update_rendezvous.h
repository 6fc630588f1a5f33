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
/// A rank that calls GradientSync::update() sends an announcement with its number of complete steps
/// to all other ranks, and waits until all of them have announced the same number. A rank whose
/// wait in the exchange of a bucket is long enough to sleep polls for announcements. If another
/// rank has announced an update after the same number of steps, that rank does not take part in the
/// exchange, so both ranks throw. In steps without an update, this class sends no messages. It
/// detects nothing in waits inside a call of MPI (HORO_ALGORITHM=mpi). Used by one thread at a
/// time.
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
  /// Waits in the exchange of a step call this function before each sleep. Throws MismatchError if
  /// another rank has announced an update in place of the current step.
  void check_while_exchanging();
  /// Returns when all ranks have called this function after the same number of steps. Throws
  /// MismatchError if another rank exchanges the next step instead. After the timeout of `policy`,
  /// withdraws the announcement, so that the other ranks no longer count this rank, and throws
  /// CommunicationError. Also throws CommunicationError if the job is aborted. After
  /// `stall_warning`, notes the missing ranks in LongWaits.
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
  // The number of updates that all ranks have announced or that have ended with MismatchError. An
  // update that has timed out is not counted. Messages with a lower `attempt` are outdated.
  std::uint64_t attempt_ = 0;
  std::uint32_t looks_ = 0;  // calls of check_while_exchanging()
  // messages_[r] holds the messages of rank r. If rank r is ahead, some of them may belong to later
  // attempts. end_attempt() removes outdated messages.
  std::vector<std::vector<Message>> messages_;
};

}  // namespace horo::plan
