#include "ops/train/progress_display.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

namespace horo::ops {

namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
// Back to the start of the line, and clear it.
constexpr const char* kRedraw = "\r\x1b[K";

}  // namespace

ProgressOptions progress_options_for(std::FILE* file) {
  ProgressOptions options{.file = file};
  // A launcher may put its ranks on pseudo-terminals that nobody looks at: those have no width.
  winsize size{};
  options.is_terminal =
      isatty(fileno(file)) == 1 && ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (options.is_terminal) options.width = size.ws_col;
  return options;
}

ProgressDisplay::ProgressDisplay(const ProgressOptions& options,
                                 std::function<Clock::time_point()> now)
    : options_(options), now_(std::move(now)), latest_(now_()) {}

bool ProgressDisplay::is_due(const Progress& progress, Clock::time_point time) const {
  if (progress.step == progress.steps) return true;
  if (options_.is_terminal) return time - latest_ >= kBarInterval;
  const bool at_interval = options_.log_every > 0 && progress.step % options_.log_every == 0;
  return at_interval || time - latest_ >= kLineInterval;
}

void ProgressDisplay::update(const Progress& progress) {
  if (options_.file == nullptr) return;
  const auto time = now_();
  if (!is_due(progress, time)) return;
  latest_ = time;
  if (options_.is_terminal) {
    // The last column stays free: some terminals wrap when it is written.
    const std::string line = bar_line(progress, options_.width > 0 ? options_.width - 1 : 0);
    fmt::print(options_.file, "{}{}{}", kRedraw, line, progress.step == progress.steps ? "\n" : "");
  } else {
    fmt::print(options_.file, "{}\n", plain_line(progress));
  }
  std::fflush(options_.file);
}

void ProgressDisplay::print(std::string_view line) {
  if (options_.file == nullptr) return;
  fmt::print(options_.file, "{}{}\n", options_.is_terminal ? kRedraw : "", line);
  std::fflush(options_.file);
}

}  // namespace horo::ops
