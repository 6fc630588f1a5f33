#include "horo/base/text/printable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "tests/support/random_text.h"

namespace horo {
namespace {

TEST(Printable, KeepsPrintableText) {
  for (const char* text : {"", "fc1.weight", "a\\b\"c", "sch\xc3\xb6n", "\xe6\x97\xa5\xe6\x9c\xac",
                           "\xf0\x9f\x99\x82", "\\x0a"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("a\nrank 3 killed"), "a\\x0arank 3 killed");
  EXPECT_EQ(printable(std::string_view("\0\t\x1b[31m\x7f", 8)), "\\x00\\x09\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI in one character
  EXPECT_EQ(printable("\xe2\x80\xa8|\xe2\x80\xa9"), "\\xe2\\x80\\xa8|\\xe2\\x80\\xa9");
  EXPECT_EQ(printable("\xff|\x80|\xc3"), "\\xff|\\x80|\\xc3");
  EXPECT_EQ(printable("\xc3(|\xc0\x80|\xed\xa0\x80|\xf5\x80\x80\x80"),
            "\\xc3(|\\xc0\\x80|\\xed\\xa0\\x80|\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(printable("sch\xc3\xb6n").substr(0, 4), "sch\xc3");
  EXPECT_EQ(printable(std::string_view("sch\xc3\xb6n").substr(0, 4)), "sch\\xc3");  // cut off
}

TEST(Printable, IsIdempotentOneLineUtf8) {
  RandomText random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = printable(random.next(40));
    ASSERT_TRUE(is_clean_line(text)) << testing::PrintToString(text);
    ASSERT_EQ(printable(text), text);
  }
}

TEST(Printable, KeepsNewlinesBetweenLines) {
  EXPECT_EQ(printable_lines(""), "");
  EXPECT_EQ(printable_lines("a\n\n\x1b[31m\nb"), "a\n\n\\x1b[31m\nb");
  EXPECT_EQ(printable_lines("a\n"), "a\n");
}

TEST(JsonString, EscapesWhatIsNotPrintableAscii) {
  EXPECT_EQ(json_string(""), R"("")");
  EXPECT_EQ(json_string("fc1.weight / 2"), R"("fc1.weight / 2")");
  EXPECT_EQ(json_string("\"\\\b\f\n\r\t"), R"("\"\\\b\f\n\r\t")");
  EXPECT_EQ(json_string(std::string_view("\0\x1b\x7f", 3)), R"("\u0000\u001b\u007f")");
  EXPECT_EQ(json_string("\xc3\xa4\xe2\x82\xac"), R"("\u00e4\u20ac")");
  EXPECT_EQ(json_string("\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"), R"("\ud83d\ude00\udbff\udfff")");
  EXPECT_EQ(json_string("a\xff\xe2\x82z"), R"("a\ufffd\ufffd\ufffdz")");
}

// nlohmann-json is the reference, for all characters below U+0800 and a sample of the others.
TEST(JsonString, EqualsTheReference) {
  for (char32_t code = 0; code <= 0x10ffff; code += code < 0x800 ? 1 : 37) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const std::string escapes =
        code < 0x10000 ? fmt::format(R"("\u{:04x}")", static_cast<unsigned>(code))
                       : fmt::format(R"("\u{:04x}\u{:04x}")", 0xd800u + ((code - 0x10000u) >> 10),
                                     0xdc00u + ((code - 0x10000u) & 0x3ffu));
    const auto text = nlohmann::json::parse(escapes).get<std::string>();
    ASSERT_EQ(json_string(text), nlohmann::json(text).dump(-1, ' ', true));
  }
}

TEST(Printable, AppliesToErrorsAndLogLines) {
  RandomText random(2);
  std::string log;
  testing::internal::CaptureStderr();
  for (int round = 0; round < 200; ++round) {
    const std::string name = random.next(30);
    const MismatchError error("tensor '" + name + "': the shapes differ");
    EXPECT_TRUE(is_clean_line(error.what()));
    log_error("stalled: {}", name);
  }
  log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 200);
  std::erase(log, '\n');
  EXPECT_TRUE(is_clean_line(log));
}

}  // namespace
}  // namespace horo
