#include "horo/base/text/quantity.h"

#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

TEST(ParseBytes, AcceptsUnitsAndSpaces) {
  EXPECT_EQ(parse_bytes("64MiB"), 64u << 20);
  EXPECT_EQ(parse_bytes(" 4 KiB "), 4096u);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536u);
  EXPECT_EQ(parse_bytes("2MB"), 2000000u);
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("3GiB"), 3ull << 30);
}

TEST(ParseBytes, RefusesJunkNegativeAndOverflow) {
  for (const char* text : {"", "MiB", "-1", "-4KiB", "12parsecs", "1e3", "nan", "inf", "0x10",
                           "64 MiB x", "99999999999999999999", "5000000000TiB"}) {
    EXPECT_THROW((void)parse_bytes(text), InvalidArgument) << text;
  }
}

TEST(ParseBytes, ErrorQuotesTextAndShowsForm) {
  try {
    (void)parse_bytes("12parsecs");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'12parsecs'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64MiB"), std::string::npos);
  }
}

TEST(ParseDuration, AcceptsUnits) {
  EXPECT_EQ(parse_duration("500us"), 500us);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("5min"), 5min);
  EXPECT_EQ(parse_duration("20 ms"), 20ms);
  EXPECT_EQ(parse_duration("0"), 0ns);
}

TEST(ParseDuration, RequiresAUnit) {
  for (const char* text : {"5", "-5s", "s", "5 days", "1e9h"})
    EXPECT_THROW((void)parse_duration(text), InvalidArgument) << text;
}

TEST(Format, RoundTrips) {
  for (std::size_t bytes : {0ul, 1ul, 1023ul, 1024ul, 1536ul, 4097ul, 64ul << 20, 3ul << 30,
                            7095516150040002ul, (1ul << 53) - 1})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
  EXPECT_EQ(format_bytes(64u << 20), "64 MiB");
  EXPECT_EQ(format_bytes(17), "17 B");
}

TEST(Format, DurationHasThreeDigits) {
  EXPECT_EQ(format_duration(0s), "0 s");
  EXPECT_EQ(format_duration(-5ns), "0 s");
  EXPECT_EQ(format_duration(17ns), "17 ns");
  EXPECT_EQ(format_duration(500us), "500 us");
  EXPECT_EQ(format_duration(79432us), "79.4 ms");
  EXPECT_EQ(format_duration(999600us), "1 s");
  EXPECT_EQ(format_duration(1500ms), "1.5 s");
  EXPECT_EQ(format_duration(119s), "119 s");
  EXPECT_EQ(format_duration(5min), "5 min");
  EXPECT_EQ(format_duration(119min), "119 min");
  EXPECT_EQ(format_duration(3h), "3 h");
  EXPECT_EQ(format_duration(2000h), "2000 h");
  EXPECT_EQ(format_nanoseconds(1'234'000'000), "1.23 s");
}

TEST(Format, CountHasSingularAndPlural) {
  EXPECT_EQ(format_count(0, "rank"), "0 ranks");
  EXPECT_EQ(format_count(1, "rank"), "1 rank");
  EXPECT_EQ(format_count(2, "rank"), "2 ranks");
}

}  // namespace
}  // namespace horo
