#include "launcher/process_ends.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace horo {
namespace {

pid_t start_process() {
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  return child;
}

bool is_readable(const ProcessEnds& ends, int milliseconds) {
  pollfd ready{ends.descriptor(), POLLIN, 0};
  return poll(&ready, 1, milliseconds) == 1;
}

TEST(ProcessEnds, TellsThatAProcessHasEndedOnce) {
#ifdef SYS_pidfd_open
  if (syscall(SYS_pidfd_open, -1, 0) == -1 && errno == ENOSYS)
    GTEST_SKIP() << "the kernel has no pidfd_open()";
  const pid_t first = start_process();
  const pid_t second = start_process();
  ProcessEnds ends;
  ends.add(first);
  ends.add(second);
  EXPECT_FALSE(ends.take());
  kill(first, SIGKILL);
  EXPECT_TRUE(is_readable(ends, 30000));
  EXPECT_TRUE(ends.take());
  EXPECT_FALSE(ends.take());
  kill(second, SIGKILL);
  EXPECT_TRUE(is_readable(ends, 30000));
  ends.clear();
  EXPECT_FALSE(ends.take());
  for (const pid_t child : {first, second}) waitpid(child, nullptr, 0);
  ends.add(first);  // it does not exist any more
  EXPECT_FALSE(ends.take());
#else
  GTEST_SKIP() << "the headers have no pidfd_open()";
#endif
}

}  // namespace
}  // namespace horo
