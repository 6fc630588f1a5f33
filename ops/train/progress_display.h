#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string_view>

#include "ops/train/progress_line.h"

namespace horo::ops {

struct ProgressOptions {
  /// Where lines go; null: nowhere (all ranks but one). Not owned.
  std::FILE* file = nullptr;
  /// A bar that is redrawn in place; otherwise plain lines.
  bool is_terminal = false;
  /// Characters per line of the terminal.
  std::size_t width = 80;
  /// Steps between plain lines.
  std::size_t log_every = 100;
};

/// `options` for the rank that prints to `file`: a bar if it is a terminal with a known width.
ProgressOptions progress_options_for(std::FILE* file);

/// Shows progress often enough to be of use and seldom enough to cost nothing: on a terminal ten
/// times a second, otherwise every `log_every` steps and at least every five seconds. Used from one
/// thread.
class ProgressDisplay {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ProgressDisplay(const ProgressOptions& options,
                           std::function<Clock::time_point()> now = Clock::now);

  /// Call after every step; shows it if it is time to. The last step of an epoch is always shown.
  void update(const Progress& progress);
  /// A whole line, below the bar.
  void print(std::string_view line);

 private:
  bool is_due(const Progress& progress, Clock::time_point time) const;

  ProgressOptions options_;
  std::function<Clock::time_point()> now_;
  Clock::time_point latest_;
};

}  // namespace horo::ops
