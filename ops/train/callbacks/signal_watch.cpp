#include "ops/train/callbacks/signal_watch.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

/// How this process handles a signal.
struct Handling {
  std::atomic<bool> was_received = false;  // written by the handler
  // Guarded by mutex:
  int users = 0;
  struct sigaction previous {};
};

static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler must not lock");

std::mutex mutex;
std::array<Handling, NSIG> handlings;

extern "C" void note_signal(int signal) {
  handlings[static_cast<std::size_t>(signal)].was_received = true;
}

Handling& handling_of(int signal) { return handlings[static_cast<std::size_t>(signal)]; }

}  // namespace

SignalWatch::SignalWatch(int signal) : signal_(signal) {
  HORO_CHECK(signal > 0 && signal < NSIG && signal != SIGKILL && signal != SIGSTOP,
             fmt::format("signal {} cannot be handled", signal));
  const std::scoped_lock lock(mutex);
  Handling& handling = handling_of(signal);
  if (handling.users++ > 0) return;
  handling.was_received = false;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, &handling.previous);
}

SignalWatch::~SignalWatch() {
  if (signal_ == 0) return;
  const std::scoped_lock lock(mutex);
  Handling& handling = handling_of(signal_);
  if (--handling.users == 0) sigaction(signal_, &handling.previous, nullptr);
}

SignalWatch::SignalWatch(SignalWatch&& other) noexcept : signal_(std::exchange(other.signal_, 0)) {}

bool SignalWatch::was_received() const { return handling_of(signal_).was_received; }

bool SignalWatch::take() { return handling_of(signal_).was_received.exchange(false); }

}  // namespace horo::ops
