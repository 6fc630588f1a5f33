#include "horo/observe/last_words.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <iterator>
#include <mutex>

namespace horo::observe {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal handler can find things by static variables only. It reads them while others change
// them.
std::array<std::atomic<FlightStatus*>, 16> listeners{};
struct sigaction previous[std::size(kSignals)];
bool is_installed[std::size(kSignals)];
std::atomic<pid_t> home{0};  // a child of fork() inherits the handlers, and the file is not its own
std::mutex mutex;            // guards changes of the above
int listener_count = 0;

void leave_word(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (const auto& listener : listeners) {
    FlightStatus* status = listener.load(std::memory_order_acquire);
    if (getpid() != home || status == nullptr || status->signal != 0) continue;
    status->signal_at = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
    status->signal = static_cast<std::uint32_t>(signal);
  }
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal) sigaction(signal, &previous[i], nullptr);
  raise(signal);  // comes when this handler has returned
}

void install() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (sigaction(kSignals[i], nullptr, &previous[i]) != 0) continue;
    // A program that handles it may go on.
    const bool is_default =
        (previous[i].sa_flags & SA_SIGINFO) == 0 && previous[i].sa_handler == SIG_DFL;
    if (is_outside_signal(kSignals[i]) && !is_default) continue;
    struct sigaction action {};
    action.sa_handler = leave_word;
    action.sa_flags = SA_ONSTACK;
    is_installed[i] = sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

void uninstall() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction current {};
    const bool is_ours = is_installed[i] && sigaction(kSignals[i], nullptr, &current) == 0 &&
                         (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == leave_word;
    if (is_ours) sigaction(kSignals[i], &previous[i], nullptr);
    is_installed[i] = false;
  }
}

}  // namespace

bool is_outside_signal(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

LastWords::LastWords(FlightStatus& status) : status_(status) {
  const std::scoped_lock lock(mutex);
  for (auto& listener : listeners) {
    FlightStatus* none = nullptr;
    if (listener.compare_exchange_strong(none, &status)) break;
  }
  home = getpid();
  if (listener_count++ == 0) install();
}

LastWords::~LastWords() {
  const std::scoped_lock lock(mutex);
  for (auto& listener : listeners) {
    FlightStatus* own = &status_;
    listener.compare_exchange_strong(own, nullptr);
  }
  if (--listener_count == 0) uninstall();
}

}  // namespace horo::observe
