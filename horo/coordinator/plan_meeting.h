#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/message_channel.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"

namespace horo::coordinator {

/// How ranks come together to renegotiate a plan, and how those that do not come find out.
///
/// A rank that renegotiates says so to all others, with the number of steps that it has taken, and
/// waits until all have said the same. A rank that waits for long in a bucket looks whether one
/// has: if that one has taken as many steps, it will never take part in this one. Then both are
/// told. Messages are sent when a plan is renegotiated, never in a step; a step looks for them only
/// in waits so long that they nap. Used by one thread at a time.
class PlanMeeting {
 public:
  PlanMeeting(std::string plan_name, const Topology& topology,
              std::unique_ptr<collectives::MessageChannel> channel);

  /// A step is complete.
  void end_step() { ++steps_; }
  /// That are complete.
  std::uint64_t steps() const { return steps_; }
  /// In a wait for a bucket of the current step. Throws MismatchError if a rank renegotiates
  /// instead.
  void look_while_exchanging();
  /// Returns once all ranks have called it after the same number of steps. Throws MismatchError if
  /// one exchanges instead; CommunicationError after the timeout of `policy`, and takes its word
  /// back, so that nobody meets a rank that is gone. Says which ranks are missing after
  /// `stall_warning`, unless the watchdog does.
  void meet(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning);

 private:
  enum class Intent : std::uint64_t { kRenegotiate, kExchange, kWithdraw };
  struct Word {
    Intent intent = Intent::kRenegotiate;
    std::uint64_t steps = 0;
    std::uint64_t attempt = 0;
  };
  void say(Intent intent);
  void note(int rank, const Word& word);
  void listen();
  void await_all(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning);
  bool holds(int rank, Intent intent) const;
  std::string list_missing() const;
  void end_attempt();
  [[noreturn]] void give_up(const std::string& text);

  std::string name_;
  const Topology& topology_;
  std::unique_ptr<collectives::MessageChannel> channel_;
  std::uint64_t steps_ = 0;
  // Counts the meetings, held or failed: both happen on every rank, so words of another attempt
  // are of the past.
  std::uint64_t attempt_ = 0;
  std::uint32_t looks_ = 0;
  // What each rank has said in this attempt, and in later ones if it is ahead.
  std::vector<std::vector<Word>> words_;
};

}  // namespace horo::coordinator
