#include "horo/init_roster.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "horo/base/hash.h"
#include "horo/observe/process_state.h"

namespace horo {
namespace {

// F_OFD_GETLK does not return the pid of the lock's holder, but it returns the lock's length. The
// length is therefore the holder's pid.
constexpr int kRangeBits = 23;  // the kernel's pids have 22 bits
constexpr std::int64_t kRangeBytes = std::int64_t{1} << kRangeBits;
constexpr std::uint64_t kRanges = std::uint64_t{1} << (63 - kRangeBits);

// Every process of the host may open and lock it, and nothing else depends on its locks.
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

// Each job starts at a hashed range; a collision between two jobs is unlikely.
std::int64_t InitRoster::range_of_role(int role) const {
  const auto range = (job_ + static_cast<std::uint64_t>(role)) % kRanges;
  return static_cast<std::int64_t>(range) * kRangeBytes;
}

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

}  // namespace horo
