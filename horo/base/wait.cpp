#include "horo/base/wait.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "horo/base/error.h"
#include "horo/base/futex.h"
#include "horo/base/quantity.h"
#include "horo/base/while_waiting.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kFirstNap = 20us;
// No nap lasts as long: who did not look for the time was stopped, or the machine was.
constexpr std::chrono::nanoseconds kStopped = 2s;
// How often a call of AbortSignal::raise() that is not the first looks for the first one's text.
constexpr int kLooksForText = 10000;

}  // namespace

void AbortSignal::raise(std::string_view text) noexcept {
  std::uint32_t expected = 0;
  if (!state_.compare_exchange_strong(expected, kWriting, std::memory_order_acq_rel)) {
    // The first call is about to be done, unless its process was killed meanwhile.
    for (int looks = 0; looks < kLooksForText && !is_raised(); ++looks) sched_yield();
    return;
  }
  const std::size_t length = std::min(text.size(), sizeof text_ - 1);
  std::memcpy(text_, text.data(), length);
  text_[length] = '\0';
  state_.store(kRaised, std::memory_order_release);
}

std::string AbortSignal::text() const { return text_; }

void Waiter::pause_slowly(const std::atomic<std::uint32_t>* word, std::uint32_t seen,
                          std::string_view what) {
  const auto now = std::chrono::steady_clock::now();
  if (start_ == std::chrono::steady_clock::time_point{}) start_ = last_look_ = now;
  if (now - last_look_ > kStopped) start_ += now - last_look_;
  last_look_ = now;
  if (policy_.abort != nullptr) start_ = std::max(start_, policy_.abort->excused());
  const auto waited = now - start_;
  if (policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  if (policy_.cancelled != nullptr && policy_.cancelled->load())
    throw ShutdownError(fmt::format("no longer waiting {}", what));
  if (waited > policy_.timeout + policy_.grace)
    throw CommunicationError(fmt::format("waited {} {} (HORO_TIMEOUT is {})",
                                         format_duration(waited), what,
                                         format_duration(policy_.timeout)));
  if (WhileWaiting::work_once()) {
    naps_ = 0;
    return;
  }
  if (waited < policy_.spin) return;
  if (waited < policy_.spin + policy_.yield) {
    sched_yield();
    return;
  }
  is_napping_ = true;
  if (policy_.before_nap != nullptr) (*policy_.before_nap)();
  // Bounded, since a wake-up may be missed (see Flag::publish).
  const auto nap = std::min(policy_.longest_nap, kFirstNap * (1 + naps_++));
  if (word != nullptr)
    futex_wait(*word, seen, nap);
  else
    std::this_thread::sleep_for(nap);
}

}  // namespace horo
