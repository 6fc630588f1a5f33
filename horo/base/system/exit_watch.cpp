#include "horo/base/system/exit_watch.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "horo/base/system/home_process.h"

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

// The delay of exit_late(). Under mpirun, it passes in full only if no rank exits with an error
// earlier, for example because all ranks delay their exit after a stall.
constexpr std::chrono::seconds kTimeToReportCause{3};

// The state that all objects of this process share.
struct Watches {
  // Guards the other members. During exit(), however, the code in this file reads `home` and sets
  // `exit_code` without the mutex. The mutex is recursive, because at_exit_ may call unwatch() of
  // the same object.
  std::recursive_mutex mutex;
  std::optional<HomeProcess> home;
  std::vector<ExitWatch*> watching;
  Clock::time_point exit_after{};
  int exit_code = 0;  // set by exit()
};

Watches& watches() {
  static auto* all = new Watches;  // never destroyed: on_exit() runs after static destructors
  return *all;
}

// Runs after the destructors of static objects, because such a destructor may still shut down horo,
// for example that of a static Context.
[[gnu::destructor]] void end_of_process() { ExitWatch::on_exit(); }

}  // namespace

ExitWatch::ExitWatch() {
  Watches& all = watches();
  const std::scoped_lock lock(all.mutex);
  if (!all.home) {
    all.home.emplace();
    // This handler runs in exit() and stores the exit code, because end_of_process() does not
    // receive it.
    ::on_exit([](int code, void*) { watches().exit_code = code; }, nullptr);
  }
  all.home->require_home();
}

ExitWatch::~ExitWatch() { unwatch(); }

void ExitWatch::watch(std::function<void(int)> at_exit) {
  const std::scoped_lock lock(watches().mutex);
  at_exit_ = std::move(at_exit);
  watches().watching.push_back(this);
}

// on_exit() holds the mutex while it calls at_exit_. When this function has the mutex, at_exit_ is
// therefore not running, unless at_exit_ itself has called this function.
void ExitWatch::unwatch() {
  const std::scoped_lock lock(watches().mutex);
  std::erase(watches().watching, this);
}

void ExitWatch::exit_late() {
  const std::scoped_lock lock(watches().mutex);
  watches().exit_after = Clock::now() + kTimeToReportCause;
}

void ExitWatch::on_exit() {
  Watches& all = watches();
  if (!all.home || all.home->is_elsewhere()) return;
  const std::scoped_lock lock(all.mutex);
  while (!all.watching.empty()) {
    ExitWatch* const watch = all.watching.back();
    all.watching.pop_back();
    watch->at_exit_(all.exit_code);
  }
  std::this_thread::sleep_until(all.exit_after);
}

}  // namespace horo
