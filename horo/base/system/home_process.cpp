#include "horo/base/system/home_process.h"

#include <pthread.h>

#include <atomic>

#include "horo/base/error.h"

namespace horo {
namespace {

// The generation of this process: 0 in the process that first called count_forks(), and one more in
// each child of fork(). So a HomeProcess that fork() has copied has a lower generation than the
// child.
std::atomic<std::uint32_t> forks{0};

// The handler stays registered until the process ends. The handler must be async-signal-safe,
// because it may run in the child of a process with several threads.
void count_forks() {
  [[maybe_unused]] static const int is_counting =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace

HomeProcess::HomeProcess() {
  count_forks();
  forks_ = forks.load(std::memory_order_relaxed);
}

bool HomeProcess::is_elsewhere() const noexcept {
  return forks.load(std::memory_order_relaxed) != forks_;
}

void HomeProcess::require_home() const {
  if (is_elsewhere())
    throw ShutdownError(
        "a process that was forked from a rank cannot use horo, because it has no copy of the "
        "rank's threads and connections; call exec or _exit, or fork before horo::init()");
}

}  // namespace horo
