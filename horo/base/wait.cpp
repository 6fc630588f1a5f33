#include "horo/base/wait.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/futex.h"
#include "horo/base/text/quantity.h"

namespace horo {

namespace {

thread_local const std::function<bool()>* work_of_thread = nullptr;

}  // namespace

// One object per thread is enough, because waits do not nest: work that runs during a wait must not
// wait.
WhileWaiting::WhileWaiting(std::function<bool()> work) : work_(std::move(work)) {
  HORO_CHECK(work_of_thread == nullptr, "this thread already has work for its waits");
  work_of_thread = &work_;
}

WhileWaiting::~WhileWaiting() { work_of_thread = nullptr; }

bool WhileWaiting::work_once() { return work_of_thread != nullptr && (*work_of_thread)(); }

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kFirstNap = 20us;
// Longer than any single sleep of a wait. If more time passes between two readings of the clock,
// the process or the machine is assumed to have been suspended.
constexpr std::chrono::nanoseconds kStopped = 2s;
// A later call of AbortSignal::raise() polls at most this many times for the text of the first
// call.
constexpr int kLooksForText = 10000;

}  // namespace

// The state goes from 0 to kWriting to kRaised. Only the call that reaches kWriting writes the
// text. The release store publishes the text to readers, which load the state with acquire.
void AbortSignal::raise(std::string_view text) noexcept {
  std::uint32_t expected = 0;
  if (!state_.compare_exchange_strong(expected, kWriting, std::memory_order_acq_rel)) {
    // The first call completes soon, unless its process was stopped or killed during the call. The
    // loop has a limit for that case.
    for (int looks = 0; looks < kLooksForText && !is_raised(); ++looks) sched_yield();
    return;
  }
  const std::size_t length = std::min(text.size(), sizeof text_ - 1);
  std::memcpy(text_, text.data(), length);
  text_[length] = '\0';
  state_.store(kRaised, std::memory_order_release);
}

std::string AbortSignal::text() const { return text_; }

std::string with_timeout(std::string_view text, std::chrono::nanoseconds timeout) {
  return fmt::format("{}{}{})", text, kTimeoutMark, format_duration(timeout));
}

bool names_timeout(std::string_view text) {
  return text.find(kTimeoutMark) != std::string_view::npos;
}

// Suspended time is added to start_, so that this time advances neither the stage of the wait nor
// the timeout. Otherwise a job that is stopped and continued as a whole would time out. A raised
// abort signal takes precedence over the timeout, because it has the text of the first cause.
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
  if (policy_.has_timed_out(start_, now))
    throw CommunicationError(
        with_timeout(fmt::format("waited {} {}", format_duration(waited), what), policy_.timeout));
  // While there is other work, this thread neither sleeps nor yields, because other ranks may wait
  // for that work.
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
  // The sleep is short, because a wake-up can be missed (see Flag::publish in
  // collectives/shared_memory).
  const auto nap = std::min(policy_.longest_nap, kFirstNap * (1 + naps_++));
  if (word != nullptr)
    futex_wait(*word, seen, nap);
  else
    std::this_thread::sleep_for(nap);
}

}  // namespace horo
