#include "ops/train/stop_on_signal.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

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

void install(int signal) {
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

void remove(int signal) {
  const std::scoped_lock lock(mutex);
  Handling& handling = handling_of(signal);
  if (--handling.users == 0) sigaction(signal, &handling.previous, nullptr);
}

}  // namespace

StopOnSignal::StopOnSignal(std::vector<int> signals) : signals_(std::move(signals)) {
  for (const int signal : signals_)
    HORO_CHECK(signal > 0 && signal < NSIG && signal != SIGKILL && signal != SIGSTOP,
               fmt::format("StopOnSignal: signal {} cannot be handled", signal));
  for (const int signal : signals_) install(signal);
}

StopOnSignal::~StopOnSignal() {
  for (const int signal : signals_) remove(signal);
}

StepRequests StopOnSignal::requests() {
  const bool stops = std::ranges::any_of(
      signals_, [](int signal) { return handling_of(signal).was_received.load(); });
  return {.stop = stops ? 1.0f : 0.0f};
}

void StopOnSignal::on_outcome(TrainingRun& run, std::uint64_t /*step*/,
                              const StepOutcome& outcome) {
  if (outcome.requests.stop > 0 && !std::exchange(is_reported_, true))
    run.display.print(
        fmt::format("training stops after step {}, as a rank has requested", run.steps));
}

}  // namespace horo::ops
