#include "horo/flight_recorder/crash_recorder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "horo/flight_recorder/fault_claim.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "tests/flight_recorder/flight_logs.h"
#include "tests/flight_recorder/temporary_directory.h"
#include "tests/support/sanitizer.h"

namespace horo::observe {
namespace {

struct End {
  RankSnapshot snapshot;
  int status = 0;
  std::string errors;  // its standard error
  std::string abort;   // the text of the abort signal
  bool is_raised = false;
};

// Returns the state that a process leaves behind after `die` has ended it.
End end_of(
    const std::function<void()>& die, const std::function<void()>& before = [] {}) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("rank.0.flight");
  void* memory =
      mmap(nullptr, sizeof(AbortSignal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* abort = new (memory) AbortSignal;
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    before();
    FlightRecorder recorder({.host = "h", .path = path, .abort = abort});
    FlightRecord record{};
    record.name = recorder.name("lo\nss");
    record.kind = static_cast<std::uint16_t>(recorder.name("allreduce"));
    record.submitted = flight_clock();
    const OpenFlight open = recorder.open(record);
    const CrashRecorder crash(*recorder.layout().header, abort, "rank 0 (host h, pid 7)");
    die();
    _exit(0);
  }
  close(ends[1]);
  End end;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    end.errors.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  waitpid(child, &end.status, 0);
  end.snapshot = snapshot_of(read_flight(path));
  end.is_raised = abort->is_raised();
  if (end.is_raised) end.abort = abort->text();
  munmap(memory, sizeof(AbortSignal));
  return end;
}

// Sanitizers install their own crash handlers.
void reset_crash_handlers() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(number, SIG_DFL);
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

std::pair<RankSnapshot, int> snapshot_after(
    const std::function<void()>& die, const std::function<void()>& before = [] {}) {
  const End end = end_of(die, before);
  return {end.snapshot, end.status};
}

[[gnu::noinline]] void throw_error() { throw std::runtime_error("x"); }

volatile int deepest = 1 << 30;  // NOLINT: opaque to the compiler

int overflow_stack(int depth) {
  volatile char frame[4096] = {};
  frame[depth % 4096] = 1;
  return depth == deepest ? 0 : overflow_stack(depth + 1) + frame[0];
}

TEST(CrashRecorder, ShowsTerminatedProcessAsItRan) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto [snapshot, status] = snapshot_after([&] { raise(signal); });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal) << "it still ends by that signal";
    EXPECT_EQ(snapshot.liveness, Liveness::kRunning);
    EXPECT_EQ(snapshot.failure, "");
  }
}

TEST(CrashRecorder, NamesSignalAndLastOperationOnceEverywhere) {
  const std::pair<int, const char*> signals[] = {{SIGFPE, "signal 8 (Floating point exception)"},
                                                 {SIGSEGV, "signal 11 (Segmentation fault)"},
                                                 {SIGABRT, "signal 6 (Aborted)"}};
  for (const auto& [number, name] : signals) {
    const End end = end_of([&] { raise(number); }, reset_crash_handlers);
    EXPECT_TRUE(WIFSIGNALED(end.status));
    EXPECT_EQ(WTERMSIG(end.status), number);
    const std::string text = fmt::format(
        "rank 0 (host h, pid 7) crashed: {}; its last operation was allreduce 'lo?ss'", name);
    EXPECT_EQ(end.snapshot.failure, text);
    EXPECT_EQ(end.errors, "horo: " + text + "\n");
    EXPECT_EQ(end.abort, text);
  }
}

// Without the claim, the second thread could end the process before the first has reported.
TEST(CrashRecorder, ReportsOneOfSeveralSimultaneousCrashes) {
  for (int round = 0; round < 20; ++round) {
    const End end = end_of(
        [] {
          std::barrier start(8);
          std::vector<std::jthread> threads;
          for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] {
              start.arrive_and_wait();
              raise(SIGSEGV);
            });
        },
        reset_crash_handlers);
    EXPECT_TRUE(WIFSIGNALED(end.status));
    EXPECT_EQ(WTERMSIG(end.status), SIGSEGV);
    ASSERT_THAT(end.abort, testing::StartsWith("rank 0 (host h, pid 7) crashed: signal 11"));
    EXPECT_EQ(end.errors, "horo: " + end.abort + "\n");
    EXPECT_EQ(end.snapshot.failure, end.abort);
  }
}

TEST(CrashRecorder, RecordsStackOverflow) {
  if (kHasSanitizer) GTEST_SKIP() << "frames are larger, and the stack another, with a sanitizer";
  const End end = end_of([] { overflow_stack(0); }, reset_crash_handlers);
  EXPECT_TRUE(WIFSIGNALED(end.status));
  EXPECT_EQ(WTERMSIG(end.status), SIGSEGV);
  EXPECT_THAT(end.errors, testing::HasSubstr("crashed: signal 11 (Segmentation fault)"));
}

TEST(CrashRecorder, NamesUncaughtExceptionAndNestedOnes) {
  const auto throw_nested = [] {
    try {
      throw std::runtime_error("disk full");
    } catch (...) {
      std::throw_with_nested(std::invalid_argument("step 5"));
    }
  };
  const End end = end_of([&] { std::thread(throw_nested).join(); }, reset_crash_handlers);
  EXPECT_TRUE(WIFSIGNALED(end.status));
  EXPECT_EQ(WTERMSIG(end.status), SIGABRT);
  EXPECT_THAT(end.abort, testing::StartsWith("rank 0 (host h, pid 7) ended with an uncaught "
                                             "exception (std::_Nested_exception<std::invalid_"));
  EXPECT_THAT(end.abort, testing::EndsWith("): step 5; caused by: disk full"));
  EXPECT_EQ(end.errors, "horo: " + end.abort + "\n");
  EXPECT_EQ(end.snapshot.failure, end.abort);
}

TEST(CrashRecorder, ReplacesControlCharactersAndInvalidUtf8) {
  const auto throw_raw = [] {
    throw std::runtime_error(
        "caf\xc3\xa9 \x1b[1m \xc2\x9b"
        "31m \xe2\x80\xa8 \xff \xc3");
  };
  const End end = end_of([&] { std::thread(throw_raw).join(); }, reset_crash_handlers);
  EXPECT_THAT(end.abort, testing::EndsWith("): caf\xc3\xa9 ?[1m ??31m ??? ? ?"));
  EXPECT_EQ(end.errors, "horo: " + end.abort + "\n");
}

TEST(CrashRecorder, NamesUnknownExceptionAndBareTerminate) {
  const End thrown = end_of([] { std::thread([] { throw 42; }).join(); }, reset_crash_handlers);
  EXPECT_THAT(thrown.abort, testing::EndsWith("uncaught exception (int): unknown exception"));
  const auto leave_noexcept = []() noexcept { throw_error(); };
  const End left = end_of(leave_noexcept, reset_crash_handlers);
  EXPECT_THAT(left.abort, testing::ContainsRegex("ended with an (uncaught exception .*: x$|"
                                                 "exception that left a noexcept function)"));
  const End bare = end_of([] { std::terminate(); }, reset_crash_handlers);
  EXPECT_THAT(bare.abort, testing::EndsWith("called std::terminate() without an exception"));
  EXPECT_EQ(WTERMSIG(bare.status), SIGABRT);
}

TEST(CrashRecorder, CallsTerminateHandlerOfProgram) {
  const End end = end_of([] { std::terminate(); }, [] { std::set_terminate([] { _exit(9); }); });
  EXPECT_TRUE(WIFEXITED(end.status));
  EXPECT_EQ(WEXITSTATUS(end.status), 9);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("std::terminate()"));
}

TEST(CrashRecorder, LeavesDecisionToHandlerOfProgram) {
  const End end = end_of([] { raise(SIGABRT); }, [] { signal(SIGABRT, [](int) { _exit(42); }); });
  EXPECT_TRUE(WIFEXITED(end.status));
  EXPECT_EQ(WEXITSTATUS(end.status), 42);
  EXPECT_EQ(end.errors, "");
  EXPECT_FALSE(end.is_raised);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 6 (Aborted)"));
  // The handler has repaired the fault, and the process continues.
  const End repaired = end_of([] { raise(SIGSEGV); }, [] { signal(SIGSEGV, [](int) {}); });
  EXPECT_TRUE(WIFEXITED(repaired.status));
  EXPECT_EQ(repaired.snapshot.failure, "");
  EXPECT_FALSE(repaired.is_raised);
}

sigjmp_buf recovery;

void set_handler(int signal, void (*handler)(int), int flags, std::initializer_list<int> blocked) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int other : blocked) sigaddset(&action.sa_mask, other);
  sigaction(signal, &action, nullptr);
}

void raise_and_recover() {
  if (sigsetjmp(recovery, 1) == 0) raise(SIGSEGV);
}

// The recorder clears the fault at its next pulse. The limit is for a busy machine.
void wait_until_cleared() {
  for (int i = 0; i < 3000 && claimed_fault() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(CrashRecorder, ClearsFaultAfterLongJump) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  for (const int flags : {0, SA_NODEFER}) {
    const End end = end_of(
        [] {
          raise_and_recover();
          raise_and_recover();
          wait_until_cleared();
        },
        [&] { set_handler(SIGSEGV, [](int) { siglongjmp(recovery, 1); }, flags, {}); });
    EXPECT_TRUE(WIFEXITED(end.status));
    EXPECT_EQ(end.snapshot.failure, "") << flags;
    EXPECT_EQ(end.errors, "");
  }
}

TEST(CrashRecorder, KeepsRecordWhileHandlerRuns) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  for (const int flags : {0, SA_NODEFER}) {
    const End end = end_of([] { raise(SIGSEGV); },
                           [&] {
                             set_handler(SIGSEGV,
                                         [](int) {
                                           clear_survived_fault();
                                           std::thread(clear_survived_fault).join();
                                           _exit(3);
                                         },
                                         flags, {});
                           });
    EXPECT_EQ(WEXITSTATUS(end.status), 3);
    EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 11")) << flags;
  }
}

// Expects that the records show the crash after clear_survived_fault() has run in the handler.
void expect_record_kept_by(void (*handler)(int), const std::function<void()>& crash) {
  const End end = end_of(crash, [&] { set_handler(SIGSEGV, handler, SA_NODEFER, {}); });
  EXPECT_EQ(WEXITSTATUS(end.status), 3);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 11"));
}

void forget_and_exit(int) {
  clear_survived_fault();
  _exit(3);
}

TEST(CrashRecorder, KeepsRecordWhileHandlerRunsWithAnySignalMask) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  expect_record_kept_by(forget_and_exit, [] {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    raise(SIGSEGV);
  });
}

TEST(CrashRecorder, KeepsRecordForNestedFaultWithoutDefer) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  static volatile bool is_nested = false;
  expect_record_kept_by(
      [](int signal) {
        if (is_nested) forget_and_exit(signal);
        is_nested = true;
        raise(signal);
      },
      [] { raise(SIGSEGV); });
}

TEST(CrashRecorder, KeepsOuterFaultWhenInnerIsSurvived) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  const End end = end_of([] { raise(SIGSEGV); },
                         [] {
                           set_handler(SIGFPE, [](int) {}, 0, {});
                           set_handler(SIGSEGV,
                                       [](int) {
                                         raise(SIGFPE);
                                         _exit(3);
                                       },
                                       0, {});
                         });
  EXPECT_EQ(WEXITSTATUS(end.status), 3);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 11"));
}

TEST(CrashRecorder, RecordsFaultOfOtherThreadAfterSurvivedOne) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  const End end = end_of(
      [] {
        std::thread(raise_and_recover).join();
        raise(SIGFPE);
      },
      [] {
        set_handler(SIGSEGV, [](int) { siglongjmp(recovery, 1); }, 0, {});
        set_handler(SIGFPE, [](int) { _exit(3); }, 0, {});
      });
  EXPECT_EQ(WEXITSTATUS(end.status), 3);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 8"));
}

TEST(CrashRecorder, KeepsFlagsAndMaskOfHandler) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  const auto exit_code_with = [](int flags, std::initializer_list<int> blocked) {
    const End end =
        end_of([] { raise(SIGFPE); },
               [&] {
                 set_handler(
                     SIGFPE,
                     [](int) {
                       sigset_t mask;
                       sigemptyset(&mask);
                       pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                       struct sigaction action {};
                       sigaction(SIGFPE, nullptr, &action);
                       const bool is_reset = action.sa_handler == SIG_DFL;
                       const bool restarts = (action.sa_flags & SA_RESTART) != 0;
                       _exit(sigismember(&mask, SIGFPE) + 2 * sigismember(&mask, SIGUSR1) +
                             4 * (is_reset ? 1 : 0) + 8 * (restarts ? 1 : 0));
                     },
                     flags, blocked);
               });
    return WEXITSTATUS(end.status);
  };
  EXPECT_EQ(exit_code_with(0, {}), 1);
  EXPECT_EQ(exit_code_with(SA_NODEFER, {}), 0);
  EXPECT_EQ(exit_code_with(0, {SIGUSR1}), 3);
  EXPECT_EQ(exit_code_with(SA_RESTART, {}), 9);
  EXPECT_EQ(exit_code_with(SA_RESETHAND, {}) & 4, 4);
}

struct sigaction below {};

// A handler that calls the handler that was installed before it.
void chain_signal(int signal, siginfo_t* info, void* context) {
  if (write(STDERR_FILENO, "program\n", 8) != 8) _exit(1);
  below.sa_sigaction(signal, info, context);
}

TEST(CrashRecorder, AvoidsRecursionWithChainingHandler) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  const End end = end_of([] { raise(SIGSEGV); },
                         [] {
                           reset_crash_handlers();
                           FlightHeader header{};
                           const CrashRecorder earlier(header, nullptr, "rank 0");
                           struct sigaction action {};
                           action.sa_sigaction = chain_signal;
                           action.sa_flags = SA_SIGINFO;
                           sigaction(SIGSEGV, &action, &below);
                         });
  EXPECT_TRUE(WIFSIGNALED(end.status));
  EXPECT_EQ(end.errors, "program\nhoro: " + end.abort + "\n");
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 11"));
}

// The mask in the handler is that of the delivered action.
TEST(CrashRecorder, KeepsRecordUnderChainingHandlerWithoutDefer) {
  if (kHasSanitizer) GTEST_SKIP() << "the sanitizers track signal handlers themselves";
  const End end = end_of(
      [] {
        struct sigaction action {};
        action.sa_sigaction = chain_signal;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, &below);
        raise(SIGSEGV);
      },
      [] { set_handler(SIGSEGV, forget_and_exit, 0, {}); });
  EXPECT_EQ(WEXITSTATUS(end.status), 3);
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("crashed: signal 11"));
}

TEST(CrashRecorder, KeepsRecordWhenHandlerRestoresDefault) {
  const End end = end_of([] { raise(SIGFPE); },
                         [] {
                           std::signal(SIGFPE, [](int signal) {
                             std::signal(signal, SIG_DFL);
                             raise(signal);  // Ends the process after the handler has returned.
                           });
                         });
  EXPECT_TRUE(WIFSIGNALED(end.status));
  EXPECT_THAT(end.snapshot.failure, testing::HasSubstr("signal 8"));
}

TEST(CrashRecorder, ShowsCrashThatDoesNotEndProcess) {
  FlightLog log = empty_flights(1)[0];
  log.signal = SIGSEGV;
  log.signal_at = log.pulse;
  EXPECT_EQ(live_snapshot_of(log, log.pulse + 900 * kMillisecond).failure, "");
  const RankSnapshot crashed = live_snapshot_of(log, log.pulse + 1100 * kMillisecond);
  EXPECT_EQ(crashed.failure,
            "rank 0 (host a, pid 100) crashed: signal 11 (Segmentation fault), but its process is "
            "still running");
  EXPECT_EQ(crashed.taken, log.pulse);
}

TEST(CrashRecorder, LeavesSigtermHandlerAlone) {
  const auto [snapshot, status] =
      snapshot_after([] { raise(SIGTERM); }, [] { signal(SIGTERM, [](int) {}); });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(snapshot.liveness, Liveness::kDead) << "ended without a record";
}

TEST(CrashRecorder, IgnoresSignalInForkedChild) {
  if (kHasThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer delays the signal until after the end of the child";
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
    EXPECT_EQ(snapshot.liveness, Liveness::kDead) << "the parent ended without a record";
  }
}

TEST(CrashRecorder, LeavesExceptionInForkedChildToProgram) {
  const End end = end_of(
      [] {
        const pid_t child = fork();
        if (child == 0) {
          []() noexcept { throw_error(); }();
        }
        int status = 0;
        waitpid(child, &status, 0);
        _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 7 : 1);
      },
      reset_crash_handlers);
  ASSERT_TRUE(WIFEXITED(end.status));
  EXPECT_EQ(WEXITSTATUS(end.status), 7);
  EXPECT_THAT(end.errors, testing::StartsWith("terminate called"));
  EXPECT_THAT(end.errors, testing::Not(testing::HasSubstr("horo")));
  EXPECT_EQ(end.snapshot.failure, "");
  EXPECT_FALSE(end.is_raised);
}

TEST(CrashRecorder, TreatsKilledRankAsStoppedWithJob) {
  const auto picture_after = [](WallTime stopped_after_pulse) {
    FlightLog log = empty_flights(1)[0];
    apply_stop_request(log, SIGINT, log.pulse + stopped_after_pulse);
    return snapshot_of(log);
  };
  for (const WallTime ms : {-3000, 0, 200, 900}) {
    EXPECT_EQ(picture_after(ms * kMillisecond).liveness, Liveness::kRunning) << ms;
    EXPECT_EQ(picture_after(ms * kMillisecond).failure, "") << ms;
  }
  // The rank was dead before the request, or the request is of a later job in the same directory.
  for (const WallTime ms : {1500, 60000, -20000})
    EXPECT_EQ(picture_after(ms * kMillisecond).liveness, Liveness::kDead) << ms;
}

TEST(CrashRecorder, KeepsRecordedOrLivingRanksOnStopRequest) {
  FlightLog log = empty_flights(1)[0];
  log.signal = SIGSEGV;
  log.signal_at = log.pulse;
  apply_stop_request(log, SIGTERM, log.pulse);
  EXPECT_EQ(log.signal, SIGSEGV);
  FlightLog running = empty_flights(1)[0];
  running.pulse = wall_time_now();
  apply_stop_request(running, SIGTERM, running.pulse);
  EXPECT_EQ(running.signal, 0);
}

// The header of a destroyed recorder is not mapped any more.
TEST(CrashRecorder, ClearsSurvivedFaultWhileRecorderIsDestroyed) {
  FlightHeader header{};
  const CrashRecorder stays(header, nullptr, "rank 0");
  std::atomic<bool> is_done{false};
  std::jthread pulse([&] {
    while (!is_done) {
      claim_fault(SIGSEGV,
                  SIGRTMAX);  // Not blocked, so the thread does not handle the fault any more.
      clear_survived_fault();
    }
  });
  // The two threads compete for one lock, so the time of an iteration varies widely.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (int i = 0; i < 20'000 && std::chrono::steady_clock::now() < end; ++i) {
    void* memory = mmap(nullptr, sizeof(FlightHeader), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    { const CrashRecorder goes(*new (memory) FlightHeader, nullptr, "rank 1"); }
    munmap(memory, sizeof(FlightHeader));
  }
  is_done = true;
}

TEST(CrashRecorder, RestoresHandlers) {
  const std::terminate_handler before = std::get_terminate();
  FlightHeader header{};
  { const CrashRecorder crash(header, nullptr, "rank 0"); }
  EXPECT_EQ(std::get_terminate(), before);
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace horo::observe
