#include "horo/plan/plan_update_rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::plan {
namespace {

// A poll of the channel may cost an MPI call, so only every 16th call of check_while_exchanging()
// polls. A wait calls check_while_exchanging() before each sleep, and a sleep usually takes at
// least 20 us. So two polls are usually at least 0.3 ms apart.
constexpr std::uint32_t kNapsBetweenLooks = 16;
// A note in LongWaits expires after kValidFor, so a wait renews its note more often.
constexpr auto kNoteInterval = observe::LongWaits::kValidFor / 10;

}  // namespace

PlanUpdateRendezvous::PlanUpdateRendezvous(std::string plan_name, const Topology& topology,
                                           std::unique_ptr<collectives::MessageChannel> channel,
                                           observe::LongWaits& long_waits)
    : name_(std::move(plan_name)),
      topology_(topology),
      channel_(std::move(channel)),
      long_waits_(long_waits),
      messages_(static_cast<std::size_t>(topology.size)) {}

// This rank also records its own message, so that await_all() counts all ranks in the same way.
void PlanUpdateRendezvous::announce(Intent intent) {
  const Message message{intent, steps_, attempt_};
  for (int rank = 0; rank < topology_.size; ++rank)
    if (rank != topology_.rank) channel_->send(rank, std::as_bytes(std::span(&message, 1)));
  note(topology_.rank, message);
}

// Messages of one rank arrive in order, so a withdrawal arrives after the announcement that it
// removes.
void PlanUpdateRendezvous::note(int rank, const Message& message) {
  std::vector<Message>& messages = messages_[static_cast<std::size_t>(rank)];
  if (message.intent == Intent::kWithdraw)
    std::erase_if(messages,
                  [&](const Message& earlier) { return earlier.attempt == message.attempt; });
  else
    messages.push_back(message);
}

void PlanUpdateRendezvous::receive() {
  while (const auto received = channel_->poll()) {
    Message message;
    HORO_CHECK(received->bytes.size() == sizeof message,
               fmt::format("an update message has {} bytes, expected {}", received->bytes.size(),
                           sizeof message));
    std::memcpy(&message, received->bytes.data(), sizeof message);
    note(received->source, message);
  }
}

// An announcement with another number of steps does not count. For example, another rank may
// already have ended a step and wait in update(), while this rank still ends the same step.
bool PlanUpdateRendezvous::holds(int rank, Intent intent) const {
  return std::ranges::any_of(
      messages_[static_cast<std::size_t>(rank)], [&](const Message& message) {
        return message.intent == intent && message.steps == steps_ && message.attempt == attempt_;
      });
}

void PlanUpdateRendezvous::end_attempt() {
  ++attempt_;
  for (std::vector<Message>& messages : messages_)
    std::erase_if(messages, [&](const Message& message) { return message.attempt < attempt_; });
}

void PlanUpdateRendezvous::give_up(const std::string& text) {
  end_attempt();
  throw MismatchError(text);
}

// The exchange of a step cannot complete without the rank that updates. Each rank that exchanges
// this step therefore waits, receives the announcement and throws. Before it throws, it announces
// the exchange, so the rank that updates throws too, without waiting for the timeout.
void PlanUpdateRendezvous::check_while_exchanging() {
  if (++looks_ % kNapsBetweenLooks != 0) return;
  receive();
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (!holds(rank, Intent::kRenegotiate)) continue;
    announce(Intent::kExchange);
    give_up(fmt::format(
        "gradients '{}': {} called update() after {} steps, but {} exchanges another step; call "
        "update() on every rank after the same step",
        name_, topology_.describe(rank), steps_, topology_.describe(topology_.rank)));
  }
}

// A timeout does not change attempt_. Other ranks may still wait in this attempt, and this rank may
// call wait_for_all() again to continue the same attempt.
void PlanUpdateRendezvous::wait_for_all(const WaitPolicy& policy,
                                        std::chrono::nanoseconds stall_warning) {
  announce(Intent::kRenegotiate);
  try {
    await_all(policy, stall_warning);
  } catch (const CommunicationError&) {
    // If the job is aborted, this rank sends no withdrawal. MPI may already be finalized, and the
    // abort ends the waits of the other ranks.
    if (policy.abort == nullptr || !policy.abort->is_raised()) announce(Intent::kWithdraw);
    throw;
  }
  end_attempt();
}

void PlanUpdateRendezvous::await_all(const WaitPolicy& policy,
                                     std::chrono::nanoseconds stall_warning) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto next_note = start + stall_warning;
  const std::string what = fmt::format("for all ranks to update gradients '{}'", name_);
  for (Waiter waiter(policy);; waiter.pause(what)) {
    receive();
    int present = 0;
    for (int rank = 0; rank < topology_.size; ++rank) {
      if (holds(rank, Intent::kExchange))
        give_up(fmt::format(
            "gradients '{}': {} called update() after {} steps, but {} exchanges another step; "
            "call update() on every rank after the same step",
            name_, topology_.describe(topology_.rank), steps_, topology_.describe(rank)));
      present += holds(rank, Intent::kRenegotiate);
    }
    if (present == topology_.size) return;
    const auto now = Clock::now();
    if (now < next_note) continue;
    next_note = now + kNoteInterval;
    long_waits_.note(what, now - start,
                     fmt::format("update of gradients '{}' has waited {} for {}", name_,
                                 format_duration(now - start), list_missing()),
                     now);
  }
}

std::string PlanUpdateRendezvous::list_missing() const {
  std::vector<std::string> missing;
  for (int rank = 0; rank < topology_.size; ++rank)
    if (!holds(rank, Intent::kRenegotiate)) missing.push_back(topology_.describe(rank));
  return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace horo::plan
