#include "horo/base/thread_error.h"

#include <algorithm>
#include <cstring>

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

// Without a destructor, so that it may be used while a thread or the process ends.
struct Noted {
  char text[1000];
  std::size_t length;
  Clock::rep at;
};
thread_local Noted noted;  // NOLINT: a thread's own

}  // namespace

void note_thread_error(std::string_view text) noexcept {
  noted.length = std::min(text.size(), sizeof noted.text);
  std::memcpy(noted.text, text.data(), noted.length);
  noted.at = Clock::now().time_since_epoch().count();
}

std::string latest_thread_error(std::chrono::nanoseconds age) {
  const Clock::time_point at{Clock::duration(noted.at)};
  return Clock::now() - at > age ? std::string() : std::string(noted.text, noted.length);
}

}  // namespace horo
