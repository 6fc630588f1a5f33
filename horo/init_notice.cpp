#include "horo/init_notice.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "horo/base/futex.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"

namespace horo {

InitNotice::InitNotice(std::string rank, std::chrono::nanoseconds first,
                       std::chrono::nanoseconds again, std::function<void(const std::string&)> say)
    : rank_(std::move(rank)),
      first_(first),
      again_(again),
      say_(say ? std::move(say) : [](const std::string& text) { log_warning("{}", text); }),
      thread_([this] {
        try {
          run();
        } catch (const std::exception& error) {
          log_error("the notice of init() has ended: {}", error.what());
        }
      }) {}

InitNotice::~InitNotice() {
  should_stop_ = 1;
  futex_wake_all(should_stop_);
}

void InitNotice::run() const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (Clock::time_point due = start + first_;; due += again_) {
    while (should_stop_ == 0 && Clock::now() < due) futex_wait(should_stop_, 0, due - Clock::now());
    if (should_stop_ != 0) return;
    say_(fmt::format(
        "{} has waited {} in horo::init() for other ranks: those that do not say so "
        "have not called it; look at what they do before, or whether they run",
        rank_,
        format_duration(std::chrono::round<std::chrono::milliseconds>(Clock::now() - start))));
  }
}

}  // namespace horo
