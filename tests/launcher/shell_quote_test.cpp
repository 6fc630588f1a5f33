#include <gmock/gmock.h>

#include "horo/base/error.h"
#include "launcher/mpirun_command.h"

namespace horo {
namespace {

using testing::ElementsAre;

TEST(ShellQuote, KeepsPlainWords) {
  EXPECT_EQ(shell_quote("build/release/bin/train"), "build/release/bin/train");
  EXPECT_EQ(shell_quote("--json=a_b-c.d:e,f@g%h+i"), "--json=a_b-c.d:e,f@g%h+i");
}

TEST(ShellQuote, QuotesSpecialCharacters) {
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_quote("a\nb"), "'a\nb'");
  EXPECT_EQ(shell_quote("don't"), "'don'\\''t'");
  EXPECT_EQ(shell_quote("*"), "'*'");
  EXPECT_EQ(shell_quote("~"), "'~'");
}

TEST(SplitWords, MatchesShell) {
  EXPECT_THAT(split_words(""), ElementsAre());
  EXPECT_THAT(split_words("  --mca  btl\ttcp,self "), ElementsAre("--mca", "btl", "tcp,self"));
  EXPECT_THAT(split_words("a 'b c' \"d e\" f\\ g"), ElementsAre("a", "b c", "d e", "f g"));
  EXPECT_THAT(split_words("'' x"), ElementsAre("", "x"));
  EXPECT_THAT(split_words(R"("\d \" \\")"), ElementsAre(R"(\d " \)"));
  EXPECT_THAT(split_words("pre'fi x'ed"), ElementsAre("prefi xed"));
}

TEST(SplitWords, RejectsOpenQuote) {
  EXPECT_THROW(split_words("a 'b"), InvalidArgument);
  EXPECT_THROW(split_words("\"b\\\""), InvalidArgument);
}

TEST(SplitWords, UndoesShellJoin) {
  const std::vector<std::string> words = {"a",  "",       "b c",    "d'e", "\"",
                                          "\\", "$x `y`", "l1\nl2", "#",   "*"};
  EXPECT_EQ(split_words(shell_join(words)), words);
}

}  // namespace
}  // namespace horo
