#include "ops/train/progress_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace horo::ops {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// Shows 20 steps of 100 that take `step_time` each, and returns what was written.
std::string shown(ProgressOptions options, std::chrono::milliseconds step_time) {
  char* text = nullptr;
  std::size_t size = 0;
  options.file = open_memstream(&text, &size);
  ProgressDisplay::Clock::time_point time;
  ProgressDisplay display(options, [&time] { return time; });
  for (std::uint64_t step = 1; step <= 20; ++step) {
    time += step_time;
    display.update({.step = step, .steps = 100});
  }
  std::fclose(options.file);
  std::string result(text, size);
  std::free(text);
  return result;
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
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* file = open_memstream(&text, &size);
    ProgressDisplay display({.file = file, .is_terminal = is_terminal, .log_every = 1000});
    display.update({.step = 100, .steps = 100});
    display.print("done");
    std::fclose(file);
    EXPECT_THAT(text, HasSubstr("100/100"));
    EXPECT_THAT(text, testing::EndsWith("done\n"));
    EXPECT_EQ(count(text, '\n'), 2);
    std::free(text);
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
