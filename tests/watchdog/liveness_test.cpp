#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "horo/watchdog/node_watch.h"

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

TEST(ProcessStat, ParsesStateAndStartTime) {
  for (const char* name : {"train", "my (odd) name", ") S 1 2", ""}) {
    const auto stat = parse_process_stat(stat_line(name, "T", "987654321"));
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->state, 'T');
    EXPECT_EQ(stat->start_time, 987654321u);
  }
}

TEST(ProcessStat, RejectsOtherText) {
  const std::string line = stat_line("train", "S", "123");
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("17 (train"));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "SS", "123")));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "S", "12x")));
  EXPECT_FALSE(parse_process_stat(stat_line("train", "S", "99999999999999999999999")));
  for (std::size_t length = 0; length < line.find(" 123"); ++length)
    EXPECT_FALSE(parse_process_stat(line.substr(0, length))) << length;
}

TEST(ProcessStat, FindsThisProcessAndNoOther) {
  const auto own = look_up_process(getpid()).stat;
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->state == 'R' || own->state == 'S') << own->state;
  EXPECT_GT(own->start_time, 0u);
  const ProcessLookup none = look_up_process(1 << 30);
  EXPECT_TRUE(none.is_known);
  EXPECT_FALSE(none.stat);
}

TEST(ProcessStat, IsUnknownWithoutFileDescriptors) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    const bool is_limited = setrlimit(RLIMIT_NOFILE, &none) == 0;
    const bool is_unknown = !look_up_process(getppid()).is_known &&
                            state_of_process(getppid(), 0) == ProcessState::kUnknown;
    _exit(is_limited && is_unknown ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

ProcessObservation observation(char state, std::chrono::nanoseconds silence = 0s) {
  ProcessObservation made;
  made.is_visible = true;
  made.process = ProcessStat{state, 7};
  made.start_time = 7;
  made.silence = silence;
  return made;
}

TEST(Liveness, FollowsProcessState) {
  for (char state : {'R', 'S', 'D', 'I'})
    EXPECT_EQ(judge_liveness(observation(state, 20s), 3s), Liveness::kRunning) << state;
  for (char state : {'T', 't'})
    EXPECT_EQ(judge_liveness(observation(state), 3s), Liveness::kStopped) << state;
  EXPECT_EQ(judge_liveness(observation('X', 2s), 3s), Liveness::kDead);
  EXPECT_EQ(judge_liveness(observation('Z', 4s), 3s), Liveness::kDead);
}

TEST(Liveness, ZombieWithHeartbeatIsRunning) {
  EXPECT_EQ(judge_liveness(observation('Z', 500ms), 3s), Liveness::kRunning);
}

TEST(Liveness, ReusedPidIsNotTheRank) {
  ProcessObservation reused = observation('R', 1100ms);
  reused.start_time = 8;
  EXPECT_EQ(judge_liveness(reused, 3s), Liveness::kDead);
  ProcessObservation gone = observation('R', 1100ms);
  gone.process.reset();
  EXPECT_EQ(judge_liveness(gone, 3s), Liveness::kDead);
}

TEST(Liveness, RecentHeartbeatIsNotDead) {
  ProcessObservation gone = observation('R', 900ms);
  gone.process.reset();
  EXPECT_EQ(judge_liveness(gone, 3s), Liveness::kRunning);
  EXPECT_EQ(judge_liveness(observation('X', 900ms), 3s), Liveness::kRunning);
}

TEST(Liveness, InvisibleProcessIsSilentButNeverDead) {
  ProcessObservation hidden;
  hidden.silence = 2s;
  EXPECT_EQ(judge_liveness(hidden, 3s), Liveness::kRunning);
  hidden.silence = 4s;
  EXPECT_EQ(judge_liveness(hidden, 3s), Liveness::kSilent);
}

TEST(Liveness, RankThatLeftIsNotDead) {
  ProcessObservation left;
  left.is_visible = true;
  left.has_left = true;
  EXPECT_EQ(judge_liveness(left, 3s), Liveness::kEnded);
}

TEST(Liveness, FollowsStoppedResumedAndKilledChild) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const auto start = look_up_process(child).stat;
  ASSERT_TRUE(start);
  const auto liveness = [&] {
    ProcessObservation seen;
    seen.is_visible = true;
    seen.process = look_up_process(child).stat;
    seen.start_time = start->start_time;
    seen.silence = 2s;
    return judge_liveness(seen, 3s);
  };
  EXPECT_EQ(liveness(), Liveness::kRunning);
  int status = 0;
  kill(child, SIGSTOP);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(liveness(), Liveness::kStopped);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
  EXPECT_EQ(liveness(), Liveness::kRunning);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(liveness(), Liveness::kDead);
}

}  // namespace
}  // namespace horo::observe
