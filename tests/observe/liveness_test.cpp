#include "horo/observe/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace horo::observe {
namespace {

using namespace std::chrono_literals;

// proc(5): pid (name) state ppid ... with the start time as field 22.
std::string stat_line(const std::string& name, const std::string& state,
                      const std::string& start_time) {
  std::string line = "17 (" + name + ") " + state;
  for (int field = 4; field <= 21; ++field) line += " " + std::to_string(field);
  return line + " " + start_time + " 23 24\n";
}

TEST(ProcessStat, StateAndStartTimeAreFound) {
  for (const char* name : {"train", "my (odd) name", ") S 1 2", ""}) {
    const auto stat = parse_process_stat(stat_line(name, "T", "987654321"));
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->state, 'T');
    EXPECT_EQ(stat->start_time, 987654321u);
  }
}

TEST(ProcessStat, WhatIsNoSuchLineIsRefused) {
  const std::string line = stat_line("train", "S", "123");
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("17 (train"));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "SS", "123")));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "S", "12x")));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "S", "99999999999999999999999")));
  for (std::size_t length = 0; length < line.find(" 123"); ++length)
    EXPECT_FALSE(parse_process_stat(line.substr(0, length))) << length;
}

TEST(ProcessStat, OfThisProcessAndOfNone) {
  const auto own = look_for_process(getpid()).stat;
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->state == 'R' || own->state == 'S') << own->state;
  EXPECT_GT(own->start_time, 0u);
  const ProcessLook none = look_for_process(1 << 30);
  EXPECT_TRUE(none.is_known);
  EXPECT_FALSE(none.stat);
}

TEST(ProcessStat, WithoutADescriptorToSpareNothingIsKnownOfAProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    const bool is_limited = setrlimit(RLIMIT_NOFILE, &none) == 0;
    const bool is_unknown = !look_for_process(getppid()).is_known &&
                            state_of_process(getppid(), 0) == ProcessState::kUnknown;
    _exit(is_limited && is_unknown ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

Sighting sighting(char state, std::chrono::nanoseconds silence = 0s) {
  Sighting made;
  made.is_visible = true;
  made.process = ProcessStat{state, 7};
  made.start_time = 7;
  made.silence = silence;
  return made;
}

TEST(Liveness, FollowsTheStateOfTheProcess) {
  for (char state : {'R', 'S', 'D', 'I'})
    EXPECT_EQ(judge_liveness(sighting(state, 20s), 3s), Liveness::kRunning) << state;
  for (char state : {'T', 't'})
    EXPECT_EQ(judge_liveness(sighting(state), 3s), Liveness::kStopped) << state;
  EXPECT_EQ(judge_liveness(sighting('X', 2s), 3s), Liveness::kDead);
  EXPECT_EQ(judge_liveness(sighting('Z', 4s), 3s), Liveness::kDead);
}

TEST(Liveness, AProcessWhoseFirstThreadHasEndedLivesWhileItsHeartBeats) {
  EXPECT_EQ(judge_liveness(sighting('Z', 500ms), 3s), Liveness::kRunning);
}

TEST(Liveness, AReusedNumberIsNotTakenForTheRank) {
  Sighting reused = sighting('R', 1100ms);
  reused.start_time = 8;
  EXPECT_EQ(judge_liveness(reused, 3s), Liveness::kDead);
  Sighting gone = sighting('R', 1100ms);
  gone.process.reset();
  EXPECT_EQ(judge_liveness(gone, 3s), Liveness::kDead);
}

TEST(Liveness, WhoseHeartHasJustBeatenIsNotDead) {
  Sighting gone = sighting('R', 900ms);
  gone.process.reset();
  EXPECT_EQ(judge_liveness(gone, 3s), Liveness::kRunning);
  EXPECT_EQ(judge_liveness(sighting('X', 900ms), 3s), Liveness::kRunning);
}

TEST(Liveness, WhoCannotBeLookedUpIsKnownByItsHeartbeatAndNeverCalledDead) {
  Sighting hidden;
  hidden.silence = 2s;
  EXPECT_EQ(judge_liveness(hidden, 3s), Liveness::kRunning);
  hidden.silence = 4s;
  EXPECT_EQ(judge_liveness(hidden, 3s), Liveness::kSilent);
}

TEST(Liveness, WhoLeftInGoodOrderIsNotDead) {
  Sighting left;
  left.is_visible = true;
  left.has_left = true;
  EXPECT_EQ(judge_liveness(left, 3s), Liveness::kEnded);
}

TEST(Liveness, OfAChildThatIsStoppedResumedAndKilled) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const auto start = look_for_process(child).stat;
  ASSERT_TRUE(start);
  const auto look = [&] {
    Sighting seen;
    seen.is_visible = true;
    seen.process = look_for_process(child).stat;
    seen.start_time = start->start_time;
    seen.silence = 2s;
    return judge_liveness(seen, 3s);
  };
  EXPECT_EQ(look(), Liveness::kRunning);
  int status = 0;
  kill(child, SIGSTOP);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(look(), Liveness::kStopped);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
  EXPECT_EQ(look(), Liveness::kRunning);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(look(), Liveness::kDead);
}

}  // namespace
}  // namespace horo::observe
