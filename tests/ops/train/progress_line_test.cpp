#include <gtest/gtest.h>

#include <limits>

#include "ops/train/progress_display.h"

namespace horo::ops {
namespace {

const Progress kProgress{.epoch = 0,
                         .epochs = 3,
                         .step = 40,
                         .steps = 160,
                         .loss = 0.12345,
                         .samples_per_second = 5120.4,
                         .seconds_left = 67.2};

TEST(ProgressLine, PlainLineNamesEverything) {
  EXPECT_EQ(plain_line(kProgress),
            "epoch 1/3  step  40/160  loss 0.1235  5120 samples/s  1:07 left");
}

TEST(ProgressLine, BarFillsWithTheStep) {
  Progress progress = kProgress;
  const auto bar_at = [&progress](std::uint64_t step) {
    progress.step = step;
    const auto line = bar_line(progress, 69);
    return line.substr(line.find('['), line.find(']') - line.find('[') + 1);
  };
  EXPECT_EQ(bar_at(0), "[>.......]");
  EXPECT_EQ(bar_at(19), "[>.......]");
  EXPECT_EQ(bar_at(40), "[==>.....]");
  EXPECT_EQ(bar_at(159), "[=======>]");
  EXPECT_EQ(bar_at(160), "[========]");
}

TEST(ProgressLine, BarLineFitsTheWidth) {
  for (std::size_t width = 0; width < 200; ++width) {
    const auto line = bar_line(kProgress, width);
    EXPECT_LE(line.size(), width);
    EXPECT_EQ(line.find('[') != std::string::npos, width >= 66) << width << ": " << line;
  }
  EXPECT_EQ(bar_line(kProgress, 60), "epoch 1/3  40/160  loss 0.1235  5120 samples/s  1:07 left");
}

TEST(ProgressLine, AcceptsAnEmptyEpochAndANanLoss) {
  const Progress progress{.step = 0, .steps = 0, .loss = std::numeric_limits<double>::quiet_NaN()};
  EXPECT_NE(plain_line(progress).find("loss nan"), std::string::npos);
  EXPECT_LE(bar_line(progress, 80).size(), 80u);
}

TEST(ProgressLine, FormatsTimeLeft) {
  EXPECT_EQ(format_time_left(0), "0:00");
  EXPECT_EQ(format_time_left(7.4), "0:07");
  EXPECT_EQ(format_time_left(59.6), "1:00");
  EXPECT_EQ(format_time_left(754), "12:34");
  EXPECT_EQ(format_time_left(3723), "1:02:03");
  EXPECT_EQ(format_time_left(360000), "100:00:00");
  EXPECT_EQ(format_time_left(-1), "?");
  EXPECT_EQ(format_time_left(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_time_left(std::numeric_limits<double>::quiet_NaN()), "?");
}

}  // namespace
}  // namespace horo::ops
