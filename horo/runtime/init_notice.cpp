#include "horo/runtime/init_notice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "horo/base/hash.h"
#include "horo/base/system/futex.h"
#include "horo/base/system/threads.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "horo/base/wait.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/diagnosis/rank_format.h"
#include "horo/flight_recorder/process_state.h"
#include "horo/watchdog/watchdog.h"

namespace horo {

namespace {

// F_OFD_GETLK returns the length of a lock, but not the pid of the process that holds the lock. So
// each process locks a range whose length in bytes is its pid.
constexpr int kRangeBits = 23;  // the kernel's pids have 22 bits
constexpr std::int64_t kRangeBytes = std::int64_t{1} << kRangeBits;
constexpr std::uint64_t kRanges = std::uint64_t{1} << (63 - kRangeBits);

// Every process of the host may open and lock /dev/null, and other programs do not normally lock
// it.
FileDescriptor open_lock_file() { return FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC)); }

struct flock write_lock(std::int64_t begin, std::int64_t length) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = length;
  return lock;
}

}  // namespace

InitRoster::InitRoster(std::string_view job, int rank, int size)
    : job_(Hash().add(geteuid()).add(job).value()), rank_(rank), size_(size), own_(hold(rank)) {}

// Each job starts at a hashed range, so a collision between two jobs is unlikely.
std::int64_t InitRoster::range_of_role(int role) const {
  const auto range = (job_ + static_cast<std::uint64_t>(role)) % kRanges;
  return static_cast<std::int64_t>(range) * kRangeBytes;
}

// The lock belongs to the open file, not to the process or thread. Closing the descriptor releases
// the lock. Two descriptors of one process exclude each other.
FileDescriptor InitRoster::hold(int role) const {
  FileDescriptor file = open_lock_file();
  struct flock lock = write_lock(range_of_role(role), getpid());
  const bool is_held = fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
  return is_held ? std::move(file) : FileDescriptor();
}

std::optional<InitRoster::Waiting> InitRoster::find(int role) const {
  const FileDescriptor file = open_lock_file();
  struct flock lock = write_lock(range_of_role(role), kRangeBytes);
  if (fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  const auto pid = static_cast<pid_t>(lock.l_len);
  const auto state = observe::state_of_process(pid, 0);
  return Waiting{role, pid, state == observe::ProcessState::kStopped};
}

std::vector<InitRoster::Waiting> InitRoster::waiting() const {
  std::vector<Waiting> found;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_)
      found.push_back({rank, getpid(), false});
    else if (const auto other = find(rank))
      found.push_back(*other);
  }
  return found;
}

// A stopped reporter keeps its lock, so another rank locks the role of the deputy meanwhile. The
// deputy releases that lock when it finds that the reporter runs again.
bool InitRoster::is_reporter() {
  const int reporter = size_, deputy = size_ + 1;
  if (reporter_.is_open()) return true;
  reporter_ = hold(reporter);
  if (reporter_.is_open()) return true;
  const auto other = find(reporter);
  if (!other || !other->is_stopped) {
    deputy_ = FileDescriptor();
    return false;
  }
  if (!deputy_.is_open()) deputy_ = hold(deputy);
  return deputy_.is_open();
}

namespace {

using namespace std::chrono_literals;
using observe::format_ranks;
using observe::kStuckExitCode;
using std::chrono::nanoseconds;
using Waiting = InitRoster::Waiting;

constexpr int kAgainAfter = 10;        // times the wait in the previous line
constexpr int kOtherHostsAfter = 4;    // times the wait on the host of rank 0
constexpr nanoseconds kOwnSleep = 2s;  // if a check is this late, the process was stopped

std::string describe_waiting(const StartingJob& job, std::span<const Waiting> here) {
  if (here.empty()) return describe_rank(job);
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

// Returns a text such as " for rank 3, which has not called it: check whether they run and what
// they do before init()".
std::string describe_absent(const StartingJob& job, std::span<const Waiting> here) {
  constexpr std::string_view kRemedy = ": check whether they run and what they do before init()";
  const auto count = static_cast<int>(here.size());
  const int absent = job.local_size - count;
  const bool is_one_host = job.local_size == job.size;
  if (count == 0 || absent < 0)
    return fmt::format(" for other ranks, which have not called it or cannot be reached{}",
                       kRemedy);
  if (absent == 0 && is_one_host)
    return ": all ranks of the job have called it, and MPI has not connected them";
  if (absent == 0)
    return fmt::format(
        " for ranks of other hosts, which have not called it or cannot be reached{}, and check the "
        "network between the hosts",
        kRemedy);
  if (!is_one_host)
    return fmt::format(" for other ranks; {} of the {} ranks of this host {} not called it{}",
                       absent, job.local_size, absent == 1 ? "has" : "have", kRemedy);
  const std::vector<int> missing = missing_in(here, job.size);
  return fmt::format(" for {}, which {} not called it{}", format_ranks(missing),
                     missing.size() == 1 ? "has" : "have", kRemedy);
}

// Returns a text such as " for rank 2, which is stopped (SIGSTOP, or a debugger): kill -CONT 7
// resumes it". Empty if no rank is stopped.
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
                     format_ranks(numbers), numbers.size() == 1 ? "is" : "are", pids,
                     numbers.size() == 1 ? "it" : "them");
}

// Returns a text such as " for rank 2, whose process (pid 7) has left init()". Empty if no rank has
// left init().
std::string describe_left(std::span<const Waiting> here) {
  std::vector<int> numbers;
  std::vector<pid_t> pids;
  for (const Waiting& waiting : here) {
    if (!waiting.has_left) continue;
    numbers.push_back(waiting.rank);
    pids.push_back(waiting.pid);
  }
  if (numbers.empty()) return {};
  const bool is_one = numbers.size() == 1;
  return fmt::format(" for {}, whose {} {}) {} left init()", format_ranks(numbers),
                     is_one ? "process (pid" : "processes (pids", fmt::join(pids, ", "),
                     is_one ? "has" : "have");
}

// Returns the ranks that wait, without the ranks that are stopped or have left init().
std::vector<Waiting> without_stopped_and_left(std::span<const Waiting> here) {
  std::vector<Waiting> running;
  std::ranges::copy_if(here, std::back_inserter(running), [](const Waiting& waiting) {
    return !waiting.is_stopped && !waiting.has_left;
  });
  return running;
}

std::string describe_cause(const StartingJob& job, std::span<const Waiting> here) {
  if (const std::string left = describe_left(here); !left.empty()) return left;
  if (const std::string stopped = describe_stopped(here); !stopped.empty()) return stopped;
  return describe_absent(job, here);
}

bool is_first_host(const StartingJob& job, std::span<const Waiting> here) {
  return here.empty() || here.front().rank == 0 || job.local_size == job.size;
}

}  // namespace

std::string describe_rank(const StartingJob& job) {
  const std::string rank = job.rank < 0 ? "a rank" : fmt::format("rank {}", job.rank);
  return fmt::format("{} (host {}, pid {})", rank, job.host, getpid());
}

std::string describe_init_wait(const StartingJob& job, std::span<const Waiting> here,
                               nanoseconds waited) {
  const std::vector<Waiting> running = without_stopped_and_left(here);
  return fmt::format("{} {} waited {} in horo::init(){}", describe_waiting(job, running),
                     running.size() > 1 ? "have" : "has",
                     format_duration(std::chrono::round<std::chrono::milliseconds>(waited)),
                     describe_cause(job, here));
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
          log_error("the watch of init() has failed: {}", error.what());
        }
      }) {}

// The member thread_ is joined after this body. The wake-up ends the sleep of the thread at once.
InitNotice::~InitNotice() {
  should_stop_ = 1;
  futex_wake_all(should_stop_);
}

void InitNotice::note_that_mpi_runs() {
  is_mpi_running_ = true;
  is_restarted_ = true;
}

// Runs on thread_. waited_ is the sum of the durations of the iterations, not the time since the
// start. If an iteration takes much too long, the process was stopped, so the duration is not
// added.
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
  // The previous reporter has probably written the line that was due.
  if (waited_ >= due_) due_ = kAgainAfter * waited_;
}

// A rank that has become the reporter later than at the start gives the launcher time to end the
// job, because the previous reporter may have ended its process after `timeout`.
bool InitNotice::ends_first(const std::vector<Waiting>& here) const {
  return reports_since_ && (*reports_since_ == 0ns || waited_ - *reports_since_ >= term()) &&
         is_first_host(job_, here) && !is_mpi_running_;
}

nanoseconds InitNotice::term() const { return std::min(options_.ends_later, options_.timeout / 2); }

// When a rank leaves init(), its lock is released, so the rank is missing in the roster as if it
// had never called init(). This function keeps such a rank in `here` and sets has_left.
void InitNotice::keep_ranks_that_left(std::vector<Waiting>& here) {
  for (Waiting& earlier : seen_) {
    if (std::ranges::find(here, earlier.rank, &Waiting::rank) != here.end()) continue;
    if (!earlier.has_left) rank_left_at_ = counted_;
    earlier.has_left = true;
    earlier.is_stopped = false;
    here.push_back(earlier);
  }
  std::ranges::sort(here, {}, &Waiting::rank);
  seen_ = here;
}

// The launcher ends the job when the first rank ends. A rank that detects that another rank has
// left gives the launcher time to end the job.
nanoseconds InitNotice::deadline(const std::vector<Waiting>& here) const {
  const nanoseconds own =
      ends_first(here) ? options_.timeout : options_.timeout + options_.ends_later;
  return rank_left_at_ ? std::max(own, *rank_left_at_ + term()) : own;
}

void InitNotice::look() {
  // Reading the roster costs several system calls for each rank, so a short init() never reads it.
  if ((waited_ < due_ || !reports_since_) && counted_ < options_.timeout / 2) return;
  std::vector<Waiting> here = roster_ ? roster_->waiting() : std::vector<Waiting>();
  keep_ranks_that_left(here);
  if (counted_ >= deadline(here)) return end(here);
  if (!reports_since_) return;
  if (waited_ < (is_first_host(job_, here) ? due_ : kOtherHostsAfter * due_)) return;
  due_ = kAgainAfter * waited_;
  const std::string text = describe_init_wait(job_, here, waited_);
  options_.report ? options_.report(text) : log_warning("{}", text);
}

// Writes and records the reason before the process ends, because the launcher reads the record and
// _exit() runs no destructors. The thread that called init() may be blocked in MPI, so no orderly
// end is possible.
void InitNotice::end(const std::vector<Waiting>& here) {
  const std::string why = with_timeout(describe_init_wait(job_, here, waited_), options_.timeout);
  const std::string text = fmt::format("{}{}{} ends now, with exit code {}", why,
                                       observe::kEndOfReasonInInit, job_.rank, kStuckExitCode);
  options_.report ? options_.report(text) : log_error("{}", text);
  if (options_.record) options_.record(why);
  options_.end_process ? options_.end_process(kStuckExitCode) : _exit(kStuckExitCode);
}

}  // namespace horo
