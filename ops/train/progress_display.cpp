#include "ops/train/progress_display.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace horo::ops {

namespace {

constexpr std::size_t kSmallestBar = 5;
constexpr std::size_t kLargestBar = 40;

std::string head(const Progress& progress) {
  return fmt::format("epoch {}/{}", progress.epoch + 1, progress.epochs);
}

// The step is padded to the width of the number of steps, which keeps lines aligned.
std::string tail(const Progress& progress) {
  const std::string steps = std::to_string(progress.steps);
  return fmt::format("{:>{}}/{}  loss {:.4f}  {:.0f} samples/s  {} left", progress.step,
                     steps.size(), steps, progress.loss, progress.samples_per_second,
                     format_time_left(progress.seconds_left));
}

std::string bar(const Progress& progress, std::size_t width) {
  const double done = static_cast<double>(progress.step) /
                      static_cast<double>(std::max<std::uint64_t>(1, progress.steps));
  const auto filled = std::min(width, static_cast<std::size_t>(done * static_cast<double>(width)));
  std::string text(filled, '=');
  if (filled < width) text += '>';
  text.resize(width, '.');
  return text;
}

}  // namespace

std::string plain_line(const Progress& progress) {
  return fmt::format("{}  step {}", head(progress), tail(progress));
}

std::string bar_line(const Progress& progress, std::size_t width) {
  const std::string before = head(progress);
  const std::string after = tail(progress);
  const std::size_t rest = before.size() + after.size() + 5;  // " [", "]  "
  std::string line;
  if (width >= rest + kSmallestBar)
    line = fmt::format("{} [{}]  {}", before, bar(progress, std::min(width - rest, kLargestBar)),
                       after);
  else
    line = fmt::format("{} {}", before, after);
  if (line.size() > width) line.resize(width);
  return line;
}

std::string format_time_left(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = std::llround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
// Moves the cursor to the start of the line and clears the line.
constexpr const char* kRedraw = "\r\x1b[K";

}  // namespace

ProgressOptions progress_options_for(std::FILE* file) {
  ProgressOptions options{.file = file};
  // A launcher may start its ranks on pseudo-terminals without a window. Those have no width.
  winsize size{};
  options.is_terminal =
      isatty(fileno(file)) == 1 && ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (options.is_terminal) options.width = size.ws_col;
  return options;
}

ProgressDisplay::ProgressDisplay(const ProgressOptions& options,
                                 std::function<Clock::time_point()> now)
    : options_(options), now_(std::move(now)), latest_(now_()) {}

// A terminal redraws one line, so frequent updates are cheap. A log file gets a line per update and
// needs fewer.
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
    // Some terminals wrap the line when the last column is written.
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
