#include "horo/base/home_process.h"

#include <pthread.h>

#include <atomic>

#include "horo/base/error.h"

namespace horo {
namespace {

// How many forks lie between the start of the program and this process.
std::atomic<std::uint32_t> forks{0};

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
        "this process was forked from a rank, which alone can use horo: its threads and "
        "connections are not here; call exec or _exit, or fork before horo::init()");
}

}  // namespace horo
