#include "horo/base/quantity.h"

#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

TEST(ParseBytes, KnowsUnitsAndSpaces) {
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

TEST(ParseBytes, ErrorQuotesTheTextAndShowsTheForm) {
  try {
    (void)parse_bytes("12parsecs");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'12parsecs'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64MiB"), std::string::npos);
  }
}

TEST(ParseDuration, KnowsUnits) {
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
  EXPECT_EQ(format_bytes(64u << 20), "64MiB");
  EXPECT_EQ(format_duration(500us), "500us");
  EXPECT_EQ(format_duration(1500ms), "1.5s");
  EXPECT_EQ(format_duration(17ns), "17ns");
}

}  // namespace
}  // namespace horo
