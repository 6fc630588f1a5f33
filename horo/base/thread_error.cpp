#include "horo/base/thread_error.h"

#include <algorithm>
#include <cstring>

namespace horo {
namespace {

using Clock = std::chrono::steady_clock;

// Trivially destructible, because errors may be thrown after the destructors of thread_local
// objects have run.
struct LatestError {
  char text[1000];
  std::size_t length;
  Clock::rep at;
};
thread_local LatestError latest;  // NOLINT: one per thread

}  // namespace

void record_thread_error(std::string_view text) noexcept {
  latest.length = std::min(text.size(), sizeof latest.text);
  std::memcpy(latest.text, text.data(), latest.length);
  latest.at = Clock::now().time_since_epoch().count();
}

std::string latest_thread_error(std::chrono::nanoseconds age) {
  const Clock::time_point at{Clock::duration(latest.at)};
  return Clock::now() - at > age ? std::string() : std::string(latest.text, latest.length);
}

KeepThreadError::KeepThreadError() : text_(latest.text, latest.length), at_(latest.at) {}

KeepThreadError::~KeepThreadError() {
  record_thread_error(text_);
  latest.at = at_;
}

}  // namespace horo
