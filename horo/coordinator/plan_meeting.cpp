#include "horo/coordinator/plan_meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"

namespace horo::coordinator {
namespace {

// A look costs a call of MPI, a nap 20 us or more.
constexpr std::uint32_t kNapsBetweenLooks = 16;

}  // namespace

PlanMeeting::PlanMeeting(std::string plan_name, const Topology& topology,
                         std::unique_ptr<collectives::MessageChannel> channel)
    : name_(std::move(plan_name)),
      topology_(topology),
      channel_(std::move(channel)),
      words_(static_cast<std::size_t>(topology.size)) {}

void PlanMeeting::say(Intent intent) {
  const Word word{intent, steps_, attempt_};
  for (int rank = 0; rank < topology_.size; ++rank)
    if (rank != topology_.rank) channel_->send(rank, std::as_bytes(std::span(&word, 1)));
  note(topology_.rank, word);
}

void PlanMeeting::note(int rank, const Word& word) {
  std::vector<Word>& words = words_[static_cast<std::size_t>(rank)];
  if (word.intent == Intent::kWithdraw)
    std::erase_if(words, [&](const Word& earlier) { return earlier.attempt == word.attempt; });
  else
    words.push_back(word);
}

void PlanMeeting::listen() {
  while (const auto message = channel_->poll()) {
    Word word;
    HORO_CHECK(message->bytes.size() == sizeof word, "a word of another plan");
    std::memcpy(&word, message->bytes.data(), sizeof word);
    note(message->source, word);
  }
}

bool PlanMeeting::holds(int rank, Intent intent) const {
  return std::ranges::any_of(words_[static_cast<std::size_t>(rank)], [&](const Word& word) {
    return word.intent == intent && word.steps == steps_ && word.attempt == attempt_;
  });
}

void PlanMeeting::end_attempt() {
  ++attempt_;
  for (std::vector<Word>& words : words_)
    std::erase_if(words, [&](const Word& word) { return word.attempt < attempt_; });
}

void PlanMeeting::give_up(const std::string& text) {
  end_attempt();
  throw MismatchError(text);
}

void PlanMeeting::look_while_exchanging() {
  if (++looks_ % kNapsBetweenLooks != 0) return;
  listen();
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (!holds(rank, Intent::kRenegotiate)) continue;
    say(Intent::kExchange);
    give_up(fmt::format(
        "gradients '{}': {} calls update() after {} steps, {} exchanges one more; call update() on "
        "every rank after the same step",
        name_, topology_.describe(rank), steps_, topology_.describe(topology_.rank)));
  }
}

void PlanMeeting::meet(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning) {
  say(Intent::kRenegotiate);
  try {
    await_all(policy, stall_warning);
  } catch (const CommunicationError&) {
    // An aborted job hears it otherwise, and may have ended MPI.
    if (policy.abort == nullptr || !policy.abort->is_raised()) say(Intent::kWithdraw);
    throw;
  }
  end_attempt();
}

void PlanMeeting::await_all(const WaitPolicy& policy, std::chrono::nanoseconds stall_warning) {
  const auto start = std::chrono::steady_clock::now();
  bool was_warned = false;
  const std::string what = fmt::format("for all ranks to update gradients '{}'", name_);
  for (Waiter waiter(policy);; waiter.pause(what)) {
    listen();
    int present = 0;
    for (int rank = 0; rank < topology_.size; ++rank) {
      if (holds(rank, Intent::kExchange))
        give_up(fmt::format(
            "gradients '{}': {} calls update() after {} steps, {} exchanges one "
            "more; call update() on every rank after the same step",
            name_, topology_.describe(topology_.rank), steps_, topology_.describe(rank)));
      present += holds(rank, Intent::kRenegotiate);
    }
    if (present == topology_.size) return;
    const auto waited = std::chrono::steady_clock::now() - start;
    const bool is_watched =
        policy.abort != nullptr && policy.abort->is_watched(std::chrono::steady_clock::now());
    if (!was_warned && !is_watched && waited > stall_warning) {
      was_warned = true;
      log_warning("update of gradients '{}' has waited {} for {}", name_, format_duration(waited),
                  list_missing());
    }
  }
}

std::string PlanMeeting::list_missing() const {
  std::vector<std::string> missing;
  for (int rank = 0; rank < topology_.size; ++rank)
    if (!holds(rank, Intent::kRenegotiate)) missing.push_back(topology_.describe(rank));
  return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace horo::coordinator
