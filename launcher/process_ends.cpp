#include "launcher/process_ends.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace horo {

ProcessEnds::ProcessEnds() : events_(epoll_create1(EPOLL_CLOEXEC)) {}

void ProcessEnds::add([[maybe_unused]] pid_t pid) {
#ifdef SYS_pidfd_open
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = process.get();
  if (!process.is_open() || epoll_ctl(events_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0)
    return;
  const int number = process.get();
  processes_.emplace(number, std::move(process));
#endif
}

bool ProcessEnds::take() {
  bool has_ended = false;
  epoll_event event{};
  while (epoll_wait(events_.get(), &event, 1, 0) == 1) {
    processes_.erase(event.data.fd);
    has_ended = true;
  }
  return has_ended;
}

}  // namespace horo
