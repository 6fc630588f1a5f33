#include "horo/init_notice.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "horo/base/futex.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/base/thread_name.h"
#include "horo/observe/missing_operations.h"
#include "horo/observe/rank_words.h"
#include "horo/observe/watchdog.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using observe::kStuckExitCode;
using observe::name_ranks;
using std::chrono::nanoseconds;
using Waiting = InitRoster::Waiting;

constexpr int kAgainAfter = 10;        // times the wait of the line before
constexpr int kOtherHostsAfter = 4;    // times the wait on the host of rank 0
constexpr nanoseconds kOwnSleep = 2s;  // a look that is so late: the process was stopped

// "rank 3 (host b, pid 7)".
std::string describe_waiting(const StartingJob& job, std::span<const Waiting> here) {
  if (here.empty()) {
    const std::string rank = job.rank < 0 ? "a rank" : fmt::format("rank {}", job.rank);
    return fmt::format("{} (host {}, pid {})", rank, job.host, getpid());
  }
  std::vector<int> numbers;
  std::vector<observe::RankSnapshot> ranks;
  for (const Waiting& waiting : here) {
    numbers.push_back(waiting.rank);
    observe::RankSnapshot& rank = ranks.emplace_back();
    rank.rank = waiting.rank;
    rank.host = job.host;
    rank.pid = waiting.pid;
  }
  return observe::describe_ranks(numbers, ranks);
}

std::vector<int> missing_in(std::span<const Waiting> here, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank)
    if (std::ranges::find(here, rank, &Waiting::rank) == here.end()) missing.push_back(rank);
  return missing;
}

// " for rank 3, which has not called it: look at what they do before, and whether they run".
std::string describe_absent(const StartingJob& job, std::span<const Waiting> here) {
  constexpr std::string_view kRemedy = ": look at what they do before, and whether they run";
  const auto count = static_cast<int>(here.size());
  const int absent = job.local_size - count;
  const bool is_one_host = job.local_size == job.size;
  if (count == 0 || absent < 0)
    return fmt::format(" for other ranks, which have not called it{}", kRemedy);
  if (absent == 0 && is_one_host)
    return ": all ranks of the job have called it, and MPI has not connected them";
  if (absent == 0)
    return fmt::format(" for ranks of other hosts, which have not called it{}", kRemedy);
  if (!is_one_host)
    return fmt::format(" for other ranks; {} of the {} ranks of this host {} not called it{}",
                       absent, job.local_size, absent == 1 ? "has" : "have", kRemedy);
  const std::vector<int> missing = missing_in(here, job.size);
  return fmt::format(" for {}, which {} not called it{}", name_ranks(missing),
                     missing.size() == 1 ? "has" : "have", kRemedy);
}

// " for rank 2, which is stopped (SIGSTOP, or a debugger): kill -CONT 7 resumes it".
std::string describe_stopped(std::span<const Waiting> here) {
  std::vector<int> numbers;
  std::string pids;
  for (const Waiting& waiting : here) {
    if (!waiting.is_stopped) continue;
    numbers.push_back(waiting.rank);
    pids += fmt::format(" {}", waiting.pid);
  }
  if (numbers.empty()) return {};
  return fmt::format(" for {}, which {} stopped (SIGSTOP, or a debugger): kill -CONT{} resumes {}",
                     name_ranks(numbers), numbers.size() == 1 ? "is" : "are", pids,
                     numbers.size() == 1 ? "it" : "them");
}

// A rank that is stopped in init() is what the others wait for.
std::vector<Waiting> without_stopped(std::span<const Waiting> here) {
  std::vector<Waiting> running;
  std::ranges::copy_if(here, std::back_inserter(running),
                       [](const Waiting& waiting) { return !waiting.is_stopped; });
  return running;
}

bool is_first_host(const StartingJob& job, std::span<const Waiting> here) {
  return here.empty() || here.front().rank == 0 || job.local_size == job.size;
}

}  // namespace

std::string describe_init_wait(const StartingJob& job, std::span<const Waiting> here,
                               nanoseconds waited) {
  const std::vector<Waiting> running = without_stopped(here);
  const std::string stopped = describe_stopped(here);
  return fmt::format("{} {} waited {} in horo::init(){}", describe_waiting(job, running),
                     running.size() > 1 ? "have" : "has",
                     format_duration(std::chrono::round<std::chrono::milliseconds>(waited)),
                     stopped.empty() ? describe_absent(job, here) : stopped);
}

InitNotice::InitNotice(StartingJob job, InitNoticeOptions options)
    : job_(std::move(job)),
      options_(std::move(options)),
      interval_(std::clamp<nanoseconds>(std::min(options_.stall_warning, options_.timeout) / 8, 1ms,
                                        500ms)),
      due_(options_.stall_warning),
      is_mpi_running_(options_.is_mpi_running),
      thread_([this] {
        try {
          run();
        } catch (const std::exception& error) {
          log_error("init() is not watched any more: {}", error.what());
        }
      }) {}

InitNotice::~InitNotice() {
  should_stop_ = 1;
  futex_wake_all(should_stop_);
}

void InitNotice::note_that_mpi_runs() {
  is_mpi_running_ = true;
  is_restarted_ = true;
}

void InitNotice::run() {
  pthread_setname_np(pthread_self(), kInitThreadName);
  if (!job_.id.empty()) roster_.emplace(job_.id, job_.rank, job_.size);
  for (Clock::time_point last = Clock::now(); should_stop_ == 0;) {
    elect();
    futex_wait(should_stop_, 0, interval_);
    const Clock::time_point now = Clock::now();
    if (is_restarted_.exchange(false)) counted_ = nanoseconds(0);
    if (now - last < interval_ + kOwnSleep) {
      waited_ += now - last;
      counted_ += now - last;
    }
    last = now;
    if (should_stop_ == 0) look();
  }
}

void InitNotice::elect() {
  if (roster_ && !roster_->is_reporter()) return reports_since_.reset();
  if (reports_since_) return;
  reports_since_ = waited_;
  // The reporter before this one has written the line that was due.
  if (waited_ >= due_) due_ = kAgainAfter * waited_;
}

// A rank that has just become the reporter leaves the end to the launcher first: the reporter
// before it may have ended its process for the same reason.
bool InitNotice::ends_first(const std::vector<Waiting>& here) const {
  const nanoseconds term = std::min(options_.ends_later, options_.timeout / 2);
  return reports_since_ && (*reports_since_ == 0ns || waited_ - *reports_since_ >= term) &&
         is_first_host(job_, here) && !is_mpi_running_;
}

void InitNotice::look() {
  const nanoseconds last_end = options_.timeout + options_.ends_later;
  if (waited_ < due_ && counted_ < options_.timeout) return;
  if (!reports_since_ && counted_ < last_end) return;
  const std::vector<Waiting> here = roster_ ? roster_->waiting() : std::vector<Waiting>();
  if (counted_ >= (ends_first(here) ? options_.timeout : last_end)) return end(here);
  if (waited_ < (is_first_host(job_, here) ? due_ : kOtherHostsAfter * due_)) return;
  due_ = kAgainAfter * waited_;
  const std::string text = describe_init_wait(job_, here, waited_);
  options_.report ? options_.report(text) : log_warning("{}", text);
}

void InitNotice::end(const std::vector<Waiting>& here) {
  const std::string why =
      fmt::format("{} (HORO_TIMEOUT is {})", describe_init_wait(job_, here, waited_),
                  format_duration(options_.timeout));
  const std::string text = fmt::format("{}: the process of rank {} ends now, with exit code {}",
                                       why, job_.rank, kStuckExitCode);
  options_.report ? options_.report(text) : log_error("{}", text);
  if (options_.record) options_.record(why);
  options_.end_process ? options_.end_process(kStuckExitCode) : _exit(kStuckExitCode);
}

}  // namespace horo
