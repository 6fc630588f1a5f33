#include "horo/runtime/init_notice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "horo/watchdog/watchdog.h"
#include "tests/support/private_network.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kManyPolls = 5000;  // more than a queue of connections holds

template <typename T>
class Collected {
 public:
  auto listener() {
    return [this](const T& item) {
      const std::scoped_lock lock(mutex_);
      items_.push_back(item);
    };
  }
  std::vector<T> items() {
    const std::scoped_lock lock(mutex_);
    return items_;
  }

 private:
  std::mutex mutex_;  // guards the one below
  std::vector<T> items_;
};
using Console = Collected<std::string>;
using ExitCodes = Collected<int>;

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 30000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
}

// Unique on this machine, on which the same test may run several times.
std::string test_job_of(pid_t process) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}-{}", test->name(), process);
}
std::string test_job() { return test_job_of(getpid()); }

StartingJob job_of(int size, int rank = 0, int local_size = 0) {
  return {"b", test_job(), rank, size, local_size == 0 ? size : local_size};
}

TEST(InitNotice, NamesMissingRanks) {
  const std::vector<InitRoster::Waiting> here = {{0, 10}, {1, 11}, {3, 13}};
  EXPECT_EQ(
      describe_init_wait(job_of(5), here, 3s),
      "ranks 0-1 and 3 (host b, pids 10, 11, 13) have waited 3 s in horo::init() for ranks 2 "
      "and 4, which have not called it: check whether they run and what they do before init()");
  EXPECT_EQ(describe_init_wait(job_of(4), here, 3s),
            "ranks 0-1 and 3 (host b, pids 10, 11, 13) have waited 3 s in horo::init() for rank 2, "
            "which has not called it: check whether they run and what they do before init()");
}

TEST(InitNotice, NamesRankStoppedInInit) {
  const std::vector<InitRoster::Waiting> here = {{0, 10}, {1, 11, true}};
  EXPECT_EQ(describe_init_wait(job_of(2), here, 3s),
            "rank 0 (host b, pid 10) has waited 3 s in horo::init() for rank 1, which is stopped "
            "(SIGSTOP, or a debugger): kill -CONT 11 resumes it");
}

TEST(InitNotice, CountsMissingRanksOfOwnHost) {
  const std::vector<InitRoster::Waiting> here = {{4, 10}, {5, 11}};
  EXPECT_THAT(describe_init_wait(job_of(8, 4, 4), here, 3s),
              HasSubstr("for other ranks; 2 of the 4 ranks of this host have not called it"));
  EXPECT_THAT(describe_init_wait(job_of(8, 4, 2), here, 3s),
              HasSubstr("for ranks of other hosts, which have not called it or cannot be reached: "
                        "check whether they run and what they do before init(), and check the "
                        "network between the hosts"));
  EXPECT_THAT(describe_init_wait({"b", "", 3, 0, 0}, {}, 3s),
              AllOf(StartsWith("rank 3 (host b, pid "), HasSubstr("for other ranks, which have")));
}

TEST(InitNotice, WritesOneLinePerHost) {
  Console console;
  std::vector<std::unique_ptr<InitNotice>> notices;
  for (int rank = 0; rank < 8; ++rank)
    notices.push_back(std::make_unique<InitNotice>(
        job_of(9, rank),
        InitNoticeOptions{.stall_warning = 200ms, .timeout = 1h, .report = console.listener()}));
  wait_until([&] { return !console.items().empty(); });
  std::this_thread::sleep_for(400ms);
  EXPECT_THAT(console.items(), ElementsAre(AllOf(StartsWith("rank"), HasSubstr("for rank"))));
}

TEST(InitNotice, RepeatsWhileRanksWait) {
  Console console;
  const InitNotice notice(job_of(2),
                          {.stall_warning = 2ms, .timeout = 1h, .report = console.listener()});
  wait_until([&] { return console.items().size() >= 2; });
  EXPECT_THAT(console.items(), Each(HasSubstr("in horo::init() for rank 1, which has not called")));
  EXPECT_GE(console.items().size(), 2u);
}

TEST(InitNotice, IsSilentOnceAllJoined) {
  Console console;
  for (int i = 0; i < 100; ++i)
    const InitNotice notice(job_of(2),
                            {.stall_warning = 1h, .timeout = 1h, .report = console.listener()});
  EXPECT_THAT(console.items(), IsEmpty());
}

TEST(InitNotice, EndsProcessAfterTimeoutAndRecordsReason) {
  Console console;
  Collected<std::string> records;
  ExitCodes codes;
  const InitNotice notice(job_of(2), {.stall_warning = 1h,
                                      .timeout = 50ms,
                                      .report = console.listener(),
                                      .record = records.listener(),
                                      .end_process = codes.listener()});
  wait_until([&] { return !codes.items().empty(); });
  EXPECT_THAT(codes.items(), Each(observe::kStuckExitCode));
  ASSERT_THAT(console.items(), Not(IsEmpty()));
  EXPECT_THAT(console.items().front(),
              AllOf(HasSubstr("for rank 1, which has not called it"),
                    HasSubstr("(HORO_TIMEOUT is 50 ms): the process of rank 0 ends now, with exit "
                              "code 75")));
  ASSERT_THAT(records.items(), Not(IsEmpty()));
  EXPECT_THAT(console.items().front(), StartsWith(records.items().front()));
  EXPECT_THAT(records.items().front(), HasSubstr("(HORO_TIMEOUT is 50 ms)"));
}

TEST(InitNotice, EndsOneProcessFirst) {
  Collected<int> ended;
  std::vector<std::unique_ptr<InitNotice>> notices;
  for (int rank = 0; rank < 4; ++rank)
    notices.push_back(std::make_unique<InitNotice>(
        job_of(5, rank),
        InitNoticeOptions{.stall_warning = 10ms,
                          .timeout = 2s,
                          .ends_later = 1h,
                          .report = [](const std::string&) {},
                          .end_process = [&, rank](int) { ended.listener()(rank); }}));
  wait_until([&] { return !ended.items().empty(); });
  const int first = ended.items().front();
  notices[static_cast<std::size_t>(first)].reset();  // as when its process has ended
  std::this_thread::sleep_for(300ms);
  EXPECT_THAT(ended.items(), Each(first));
}

TEST(InitNotice, NamesRankThatLeftInit) {
  std::optional<InitRoster> other(std::in_place, test_job(), 1, 3);
  std::vector<std::string> lines;  // used by the notice's thread until it ends
  ExitCodes codes;
  std::optional<InitNotice> notice(std::in_place, job_of(3),
                                   InitNoticeOptions{.stall_warning = 600ms,
                                                     .timeout = 1s,
                                                     .report =
                                                         [&](const std::string& line) {
                                                           other.reset();
                                                           lines.push_back(line);
                                                         },
                                                     .end_process = codes.listener()});
  wait_until([&] { return !codes.items().empty(); });
  notice.reset();
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("for rank 2, which has not called it"));
  EXPECT_THAT(lines[1],
              AllOf(StartsWith("rank 0 (host b, pid "), HasSubstr("for rank 1, whose process (pid"),
                    HasSubstr(") has left init()")));
}

TEST(InitNotice, DoesNotEndProcessOnceMpiRuns) {
  ExitCodes codes;
  InitNotice notice(job_of(2), {.stall_warning = 10ms,
                                .timeout = 100ms,
                                .ends_later = 1h,
                                .report = [](const std::string&) {},
                                .end_process = codes.listener()});
  notice.note_that_mpi_runs();
  std::this_thread::sleep_for(300ms);
  EXPECT_THAT(codes.items(), IsEmpty());
}

TEST(InitRoster, HasOneReporterUntilItEnds) {
  auto first = std::make_unique<InitRoster>(test_job(), 0, 2);
  InitRoster second(test_job(), 1, 2);
  EXPECT_TRUE(first->is_reporter());
  EXPECT_FALSE(second.is_reporter());
  EXPECT_THAT(second.waiting(), SizeIs(2));
  first.reset();
  EXPECT_THAT(second.waiting(), SizeIs(1));
  EXPECT_TRUE(second.is_reporter());
}

/// Another process, which runs `function` and stops.
class StoppedProcess {
 public:
  template <typename Function>
  explicit StoppedProcess(Function&& function) : pid_(fork()) {
    if (pid_ == 0) {
      function();
      raise(SIGSTOP);
      _exit(1);
    }
    int status = 0;
    is_stopped_ = pid_ > 0 && waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }
  ~StoppedProcess() {
    if (pid_ > 0 && kill(pid_, SIGKILL) == 0) waitpid(pid_, nullptr, 0);
  }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool is_stopped() const { return is_stopped_; }

 private:
  pid_t pid_;
  bool is_stopped_ = false;
};

TEST(InitRoster, ReplacesStoppedReporter) {
  std::optional<InitRoster> first;
  std::optional<StoppedProcess> process(std::in_place, [&] {
    first.emplace(test_job_of(getppid()), 0, 2);
    first->is_reporter();
  });
  ASSERT_TRUE(process->is_stopped());
  InitRoster second(test_job(), 1, 2);
  int reports = 0;
  for (int i = 0; i < kManyPolls; ++i) reports += second.is_reporter();
  EXPECT_EQ(reports, kManyPolls);
  const auto waiting = second.waiting();
  ASSERT_THAT(waiting, SizeIs(2));
  EXPECT_EQ(waiting.front().pid, process->pid());
  EXPECT_TRUE(waiting.front().is_stopped);
  process.reset();
  EXPECT_THAT(second.waiting(), SizeIs(1));
}

TEST(InitRoster, FindsRanksInAnotherNetworkNamespace) {
  std::optional<PrivateNetwork> elsewhere(std::in_place);
  if (!elsewhere->is_there()) GTEST_SKIP() << "only root can have a network of its own";
  InitRoster first(test_job(), 0, 2);
  EXPECT_TRUE(first.is_reporter());
  elsewhere.reset();
  InitRoster second(test_job(), 1, 2);
  EXPECT_THAT(second.waiting(), SizeIs(2));
  EXPECT_FALSE(second.is_reporter());
}

}  // namespace
}  // namespace horo
