#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace horo::ops {

/// How far training is.
struct Progress {
  std::uint64_t epoch = 0;  ///< from 0
  std::uint64_t epochs = 1;
  std::uint64_t step = 0;  ///< steps of the epoch that are done
  std::uint64_t steps = 1;
  double loss = 0;                ///< of the latest step, over all ranks
  double samples_per_second = 0;  ///< over all ranks
  double seconds_left = 0;        ///< until the end of training
};

/// "epoch 1/3  step  40/468  loss 0.1234  5120 samples/s  0:07 left"
std::string plain_line(const Progress& progress);

/// "epoch 1/3 [====>......]  40/468  loss 0.1234  5120 samples/s  0:07 left", at most `width`
/// characters: the bar takes what the rest leaves, and goes if that is too little.
std::string bar_line(const Progress& progress, std::size_t width);

/// "0:07", "12:34", "1:02:03", rounded to seconds; "?" unless finite and not negative.
std::string format_time_left(double seconds);

}  // namespace horo::ops
