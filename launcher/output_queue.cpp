#include "launcher/output_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace horo {

OutputQueue::OutputQueue(int descriptor) : descriptor_(descriptor), kind_(open_again()) {}

// O_NONBLOCK is a property of the open file description, which other processes such as mpirun and
// the shell may share. Opening a pipe or terminal again creates a separate open file description. A
// slow reader then cannot block this process, and the writes of other processes stay blocking. A
// socket cannot be opened again, so each write to a socket has MSG_DONTWAIT.
OutputQueue::Kind OutputQueue::open_again() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return Kind::kOther;
  if (S_ISSOCK(status.st_mode)) return Kind::kSocket;
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return Kind::kFile;
  reopened_ = FileDescriptor(open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(),
                                  O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  return reopened_.is_open() ? Kind::kReopened : Kind::kOther;
}

void OutputQueue::add(std::string_view bytes) {
  if (has_given_up_) return;
  waiting_ += bytes;
  write_some();
}

// EAGAIN means that the reader is slow. supervise() and write_out() call this function again when
// poll() reports room.
void OutputQueue::write_some() {
  std::size_t written = 0;
  while (written < waiting_.size()) {
    const long count = write_part(std::string_view(waiting_).substr(written));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return give_up();  // the reader has closed it, for example
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  waiting_.erase(0, written);
}

long OutputQueue::write_part(std::string_view bytes) const {
  if (kind_ == Kind::kSocket) return send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (kind_ != Kind::kOther) return write(descriptor(), bytes.data(), bytes.size());
  // A pipe that is ready takes at least PIPE_BUF bytes without blocking, unless another process
  // writes to it first.
  pollfd ready{descriptor_, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
}

void OutputQueue::give_up() {
  has_given_up_ = true;
  waiting_.clear();
}

}  // namespace horo
