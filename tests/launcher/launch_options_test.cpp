#include "launcher/launch_options.h"

#include <gmock/gmock.h>

#include "horo/base/error.h"

namespace horo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

LaunchOptions parse(std::vector<std::string> words) { return parse_launch_options(words); }

std::string error_of(std::vector<std::string> words) {
  try {
    parse_launch_options(words);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(LaunchOptions, ReadsEveryOption) {
  const LaunchOptions options =
      parse({"-np", "6", "-H", "a:4,b:2", "--output-dir", "out", "--env", "A=1", "--env", "B=x=y z",
             "--mpi-args", "--mca btl 'tcp,self'", "--oversubscribe", "--dry-run", "train"});
  EXPECT_EQ(options.ranks, 6);
  EXPECT_EQ(options.hosts, "a:4,b:2");
  EXPECT_EQ(options.output_directory, "out");
  EXPECT_THAT(options.environment, ElementsAre(Pair("A", "1"), Pair("B", "x=y z")));
  EXPECT_THAT(options.mpi_arguments, ElementsAre("--mca", "btl", "tcp,self"));
  EXPECT_TRUE(options.oversubscribe);
  EXPECT_TRUE(options.dry_run);
  EXPECT_THAT(options.program, ElementsAre("train"));
}

TEST(LaunchOptions, AcceptsAllSpellingsOfRanks) {
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{"-np", "4", "p"},
                                                                              {"-n", "4", "p"},
                                                                              {"-n4", "p"},
                                                                              {"--np", "4", "p"},
                                                                              {"--np=4", "p"},
                                                                              {"-np=4", "p"}})
    EXPECT_EQ(parse(words).ranks, 4) << words[0];
}

TEST(LaunchOptions, EndAtProgram) {
  const LaunchOptions options =
      parse({"-np", "2", "train", "--json", "-np", "3", "--", "--env", "--help", "a b"});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_FALSE(options.help);
  EXPECT_THAT(options.program,
              ElementsAre("train", "--json", "-np", "3", "--", "--env", "--help", "a b"));
}

TEST(LaunchOptions, EndAtTwoDashes) {
  EXPECT_THAT(parse({"-np", "2", "--", "train", "--", "x"}).program,
              ElementsAre("train", "--", "x"));
}

TEST(LaunchOptions, TakesNumberOfRanksFromHosts) {
  EXPECT_EQ(parse({"-H", "a:2", "p"}).ranks, std::nullopt);
  EXPECT_EQ(parse({"p"}).ranks, std::nullopt);
}

TEST(LaunchOptions, NamesBadNumberOfRanks) {
  for (const char* text : {"0", "-1", "two", "2.5", "65537", "99999999999999999999", "4x"})
    EXPECT_THAT(error_of({"-np", text, "p"}),
                HasSubstr(std::string("-np ") + text +
                          ": the number of ranks must be a whole number from 1"));
}

TEST(LaunchOptions, NamesOtherErrors) {
  EXPECT_THAT(error_of({}), HasSubstr("no program is given"));
  EXPECT_THAT(error_of({"-np", "2"}), HasSubstr("no program is given"));
  EXPECT_THAT(error_of({"-np", "2", ""}), HasSubstr("no program is given"));
  EXPECT_THAT(error_of({"-np"}), HasSubstr("-np needs a value: -np N"));
  EXPECT_THAT(error_of({"-H", "", "p"}), HasSubstr("-H needs a value: -H HOST:SLOTS"));
  EXPECT_THAT(error_of({"-np", "2", "-np", "3", "p"}), HasSubstr("given twice"));
  EXPECT_THAT(error_of({"--hostfle", "f", "p"}),
              HasSubstr("unknown option --hostfle; did you mean --hostfile?"));
  EXPECT_THAT(error_of({"--frobnicate", "p"}), HasSubstr("unknown option --frobnicate"));
  EXPECT_THAT(error_of({"-z", "p"}), HasSubstr("unknown option -z"));
  EXPECT_THAT(error_of({"--host", "a", "--hostfile", "f", "p"}), HasSubstr("both given"));
  EXPECT_THAT(error_of({"-np", "2", "--env", "A", "p"}), HasSubstr("--env A: write NAME=VALUE"));
  EXPECT_THAT(error_of({"-np", "2", "--env", "1A=2", "p"}), HasSubstr("write NAME=VALUE"));
  EXPECT_THAT(error_of({"-np", "2", "--env", "=2", "p"}), HasSubstr("write NAME=VALUE"));
  EXPECT_THAT(error_of({"-np", "2", "--mpi-args", "'a", "p"}), HasSubstr("--mpi-args: the quote"));
  EXPECT_THAT(error_of({"-np", "2", "--output-dir", "a:b", "p"}), HasSubstr("--output-dir a:b"));
  EXPECT_THAT(error_of({"-np", "2", "--grace-time", "soon", "p"}),
              HasSubstr("--grace-time: 'soon'"));
}

TEST(LaunchOptions, ReadsGraceTime) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse({"-np", "2", "p"}).grace_time, 30s);
  EXPECT_EQ(parse({"-np", "2", "--grace-time", "2min", "p"}).grace_time, 2min);
  EXPECT_EQ(parse({"-np", "2", "--grace-time", "0", "p"}).grace_time, 0s);
}

TEST(LaunchHelp, FitsOnScreenAndNamesEveryOption) {
  const std::string text = launch_help();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
  for (const char* option :
       {"--np", "--host ", "--hostfile", "--output-dir", "--env", "--oversubscribe", "--mpi-args",
        "--grace-time", "--dry-run", "--help"})
    EXPECT_THAT(text, HasSubstr(option));
}

}  // namespace
}  // namespace horo
