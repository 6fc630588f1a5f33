#include "ops/train/progress_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace horo::ops {

namespace {

constexpr std::size_t kSmallestBar = 5;
constexpr std::size_t kLargestBar = 40;

std::string head(const Progress& progress) {
  return fmt::format("epoch {}/{}", progress.epoch + 1, progress.epochs);
}

// The step is padded to the width of the number of steps, so that lines stay aligned.
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

}  // namespace horo::ops
