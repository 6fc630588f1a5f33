#include "ops/train/progress_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/memory_file.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// Shows 20 steps of 100 that take `step_time` each, and returns what was written.
std::string shown(ProgressOptions options, std::chrono::milliseconds step_time) {
  const MemoryFile file;
  options.file = file.file();
  ProgressDisplay::Clock::time_point time;
  ProgressDisplay display(options, [&time] { return time; });
  for (std::uint64_t step = 1; step <= 20; ++step) {
    time += step_time;
    display.update({.step = step, .steps = 100});
  }
  return file.text();
}

std::ptrdiff_t count(const std::string& text, char character) {
  return std::count(text.begin(), text.end(), character);
}

TEST(ProgressDisplay, PrintsALineEveryLogInterval) {
  const auto text = shown({.log_every = 5}, 1ms);
  EXPECT_EQ(count(text, '\n'), 4);
  EXPECT_THAT(text, HasSubstr("step  15/100"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(ProgressDisplay, PrintsALineEveryFewSecondsIfStepsAreSlow) {
  const auto text = shown({.log_every = 1000}, 1s);
  EXPECT_EQ(count(text, '\n'), 4);  // after 5, 10, 15 and 20 seconds
  EXPECT_EQ(shown({.log_every = 1000}, 1ms), "");
}

TEST(ProgressDisplay, RedrawsABarTenTimesASecondAtMost) {
  const auto text = shown({.is_terminal = true, .width = 100, .log_every = 1}, 50ms);
  EXPECT_EQ(count(text, '\r'), 10);
  EXPECT_EQ(count(text, '\n'), 0);
}

TEST(ProgressDisplay, ShowsEndOfEpochInWholeLines) {
  for (const bool is_terminal : {false, true}) {
    const MemoryFile file;
    ProgressDisplay display({.file = file.file(), .is_terminal = is_terminal, .log_every = 1000});
    display.update({.step = 100, .steps = 100});
    display.print("done");
    const std::string text = file.text();
    EXPECT_THAT(text, HasSubstr("100/100"));
    EXPECT_THAT(text, testing::EndsWith("done\n"));
    EXPECT_EQ(count(text, '\n'), 2);
  }
}

TEST(ProgressDisplay, IsSilentWithoutAFile) {
  ProgressDisplay display({});
  display.update({.step = 1, .steps = 1});
  display.print("nothing");
}

TEST(ProgressDisplay, PrintsLinesToAPipe) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(progress_options_for(file).is_terminal);
  std::fclose(file);
}

}  // namespace
}  // namespace horo::ops
