#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace horo::ops {

/// The progress of training.
struct Progress {
  std::uint64_t epoch = 0;        ///< from 0
  std::uint64_t epochs = 1;       ///< of the run
  std::uint64_t step = 0;         ///< completed steps of the epoch
  std::uint64_t steps = 1;        ///< of an epoch
  double loss = 0;                ///< of the latest step, over all ranks
  double samples_per_second = 0;  ///< over all ranks
  double seconds_left = 0;        ///< until training ends
};

/// "epoch 1/3  step  40/468  loss 0.1234  5120 samples/s  0:07 left"
std::string plain_line(const Progress& progress);

/// "epoch 1/3 [====>......]  40/468  loss 0.1234  5120 samples/s  0:07 left", at most `width`
/// characters. The bar fills the remaining width; it is left out if fewer than 5 characters remain.
std::string bar_line(const Progress& progress, std::size_t width);

/// "0:07", "12:34", "1:02:03", rounded to seconds; "?" unless finite and not negative.
std::string format_time_left(double seconds);

/// How progress is printed.
struct ProgressOptions {
  /// Where progress is printed; null: nowhere, as on all ranks but one. Not owned.
  std::FILE* file = nullptr;
  /// Draw a bar in place instead of printing lines.
  bool is_terminal = false;
  /// Width of the terminal in characters.
  std::size_t width = 80;
  /// Steps between plain lines.
  std::size_t log_every = 100;
};

/// Options to print to `file`: a bar if it is a terminal with a known width, otherwise lines.
ProgressOptions progress_options_for(std::FILE* file);

/// Prints progress at a bounded rate: on a terminal ten times a second, otherwise every `log_every`
/// steps and at least every five seconds. Used from one thread.
class ProgressDisplay {
 public:
  /// The clock of the host.
  using Clock = std::chrono::steady_clock;

  /// `now`: the clock; tests pass their own.
  explicit ProgressDisplay(const ProgressOptions& options,
                           std::function<Clock::time_point()> now = Clock::now);

  /// Call after every step. Prints if enough time or steps have passed, and always at the last step
  /// of an epoch.
  void update(const Progress& progress);
  /// Prints a line of text and clears the bar.
  void print(std::string_view line);

 private:
  bool is_due(const Progress& progress, Clock::time_point time) const;

  ProgressOptions options_;
  std::function<Clock::time_point()> now_;
  Clock::time_point latest_;
};

}  // namespace horo::ops
