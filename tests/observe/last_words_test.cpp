#include "horo/observe/last_words.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "horo/observe/flight_reader.h"
#include "horo/observe/flight_recorder.h"
#include "horo/observe/wall_clock.h"
#include "tests/observe/flight_logs.h"
#include "tests/observe/temporary_directory.h"
#include "tests/support/sanitizer.h"

namespace horo::observe {
namespace {

// What is left by a process that ends in `die`, and its wait status.
std::pair<RankSnapshot, int> snapshot_after(
    const std::function<void()>& die, const std::function<void()>& before = [] {}) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("rank.0.flight");
  const pid_t child = fork();
  if (child == 0) {
    before();
    FlightRecorder recorder({.host = "h", .path = path});
    const LastWords words(recorder.layout().header->status);
    die();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {snapshot_of(read_flight(path)), status};
}

TEST(LastWords, AProcessEndedFromOutsideIsShownAsItRan) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto [snapshot, status] = snapshot_after([&] { raise(signal); });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal) << "it still ends by that signal";
    EXPECT_EQ(snapshot.liveness, Liveness::kRunning);
    EXPECT_EQ(snapshot.failure, "");
  }
}

TEST(LastWords, ACrashIsAFailureWithItsSignal) {
  const auto [snapshot, status] =
      snapshot_after([] { raise(SIGFPE); }, [] { signal(SIGFPE, SIG_DFL); });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGFPE);
  EXPECT_EQ(snapshot.failure, "signal 8 (Floating point exception)");
}

TEST(LastWords, AHandlerThatWasThereTakesItsTurn) {
  const auto [snapshot, status] =
      snapshot_after([] { raise(SIGABRT); }, [] { signal(SIGABRT, [](int) { _exit(42); }); });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(snapshot.failure, "signal 6 (Aborted)");
}

TEST(LastWords, AProgramThatHandlesSigtermIsLeftAlone) {
  const auto [snapshot, status] =
      snapshot_after([] { raise(SIGTERM); }, [] { signal(SIGTERM, [](int) {}); });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(snapshot.liveness, Liveness::kDead) << "gone without a word";
}

TEST(LastWords, ASignalInAForkedChildLeavesNoWordOfTheParent) {
  if (kHasThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer puts the signal off, and the child ends before it";
  for (const int signal : {SIGTERM, SIGSEGV}) {
    const auto [snapshot, status] = snapshot_after(
        [&] {
          const pid_t child = fork();
          if (child == 0) {
            raise(signal);
            _exit(0);
          }
          int end = 0;
          waitpid(child, &end, 0);
          _exit(WIFSIGNALED(end) && WTERMSIG(end) == signal ? 7 : 1);
        },
        [] { ::signal(SIGSEGV, SIG_DFL); });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7) << "the child still ends by its signal";
    EXPECT_EQ(snapshot.failure, "");
    EXPECT_EQ(snapshot.liveness, Liveness::kDead) << "the parent is gone without a word";
  }
}

TEST(LastWords, WhoWasKilledWithAStoppedJobIsTakenToHaveLeftThem) {
  const auto picture_after = [](WallTime stopped_after_pulse) {
    FlightLog log = empty_flights(1)[0];
    note_stop_order(log, SIGINT, log.pulse + stopped_after_pulse);
    return snapshot_of(log);
  };
  for (const WallTime ms : {-3000, 0, 200, 900}) {
    EXPECT_EQ(picture_after(ms * kMillisecond).liveness, Liveness::kRunning) << ms;
    EXPECT_EQ(picture_after(ms * kMillisecond).failure, "") << ms;
  }
  // It was dead before, or it is of a later job in the same directory.
  for (const WallTime ms : {1500, 60000, -20000})
    EXPECT_EQ(picture_after(ms * kMillisecond).liveness, Liveness::kDead) << ms;
}

TEST(LastWords, AStopOrderChangesNothingAboutWhoHasLeftWordOrLives) {
  FlightLog log = empty_flights(1)[0];
  log.signal = SIGSEGV;
  log.signal_at = log.pulse;
  note_stop_order(log, SIGTERM, log.pulse);
  EXPECT_EQ(log.signal, SIGSEGV);
  FlightLog alive = empty_flights(1)[0];
  alive.pulse = wall_time_now();
  note_stop_order(alive, SIGTERM, alive.pulse);
  EXPECT_EQ(alive.signal, 0);
}

TEST(LastWords, LeavesTheHandlersAsTheyWere) {
  FlightStatus status{};
  { const LastWords words(status); }
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace horo::observe
