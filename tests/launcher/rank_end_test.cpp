#include "launcher/rank/rank_end.h"

#include <gtest/gtest.h>

#include <csignal>

namespace horo {
namespace {

const RankEnd kExit{
    3, 8, 4711, "node-1", 7 << 8, "rank 1 (host b) failed", "train: unknown option --foo"};
const RankEnd kKill{0, 8, 12, "b", SIGKILL, "", ""};

TEST(RankEnd, DescribesEndOfRank) {
  EXPECT_EQ(describe(kExit), "exited with code 7");
  EXPECT_EQ(describe(kKill), "was killed by signal 9 (Killed)");
}

TEST(RankEndReader, ReadsReportsInPiecesOfAnySize) {
  const std::string text =
      "a\nb" + encode(kExit) + "\x1e own text\nc" + encode(kKill) + encode(kExit) + "d";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    RankEndReader reader;
    std::string rest;
    for (std::size_t begin = 0; begin < text.size(); begin += size)
      rest += reader.without_reports(std::string_view(text).substr(begin, size));
    EXPECT_EQ(rest, "a\nb\x1e own text\ncd") << size;
    ASSERT_EQ(reader.ends().size(), 3u) << size;
    const RankEnd& first = reader.ends()[0];
    EXPECT_EQ(first.rank, 3);
    EXPECT_EQ(first.size, 8);
    EXPECT_EQ(first.pid, 4711);
    EXPECT_EQ(first.host, "node-1");
    EXPECT_EQ(first.wait_status, 7 << 8);
    EXPECT_EQ(first.abort_reason, "rank 1 (host b) failed");
    EXPECT_EQ(first.last_line, "train: unknown option --foo");
    EXPECT_EQ(reader.ends()[1].wait_status, SIGKILL);
    EXPECT_EQ(reader.ends()[1].last_line, "");
  }
}

TEST(RankEndReader, ReturnsIncompleteReportAtEnd) {
  RankEndReader reader;
  EXPECT_EQ(reader.without_reports("a\x1e text"), "a");
  EXPECT_EQ(reader.take_rest(), "\x1e text");
  EXPECT_EQ(reader.take_rest(), "");
}

TEST(RankEndReader, KeepsTextThatResemblesReport) {
  for (const std::string& text :
       {std::string("\x1ehororun-rank-end\n"), std::string("\x1ehororun-rank-end 1 2 x h \n"),
        std::string("\x1e\n\n"), "\x1e" + std::string(9000, 'x') + "\n"}) {
    RankEndReader reader;
    std::string rest;
    for (const char c : text) rest += reader.without_reports(std::string_view(&c, 1));
    EXPECT_EQ(rest, text);
    EXPECT_TRUE(reader.ends().empty());
  }
}

}  // namespace
}  // namespace horo
