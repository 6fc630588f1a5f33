#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "horo/horo.h"

namespace horo {

/// Forks a child that runs `work` and then calls exec if `and_exec` is set and `work` returned 0,
/// else _exit with the result of `work`. Returns the exit code of the child, or -1 if a signal
/// ended it (SIGALRM after 20 s).
inline int exit_code_of_child(const std::function<int()>& work, bool and_exec = false) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int code = 99;
    try {
      code = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    if (and_exec && code == 0) execl("/bin/true", "true", nullptr);
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// Returns 0 if `call` throws the error for a forked process, else 1.
inline int is_not_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const ShutdownError& error) {
    return std::string(error.what()).find("forked from a rank") != std::string::npos ? 0 : 1;
  }
  return 1;
}

/// Returns how many calls were not refused. Call it in a forked child.
inline int count_accepted(Context& ctx, ProcessSet& set, GradientSync& sync,
                          const Handle& pending) {
  std::vector<float> x(10);
  const TensorView view(x);
  const std::function<void()> calls[] = {[&] { ctx.allreduce(view); },
                                         [&] { (void)ctx.allreduce_async(view); },
                                         [&] { ctx.broadcast(view); },
                                         [&] { ctx.barrier(); },
                                         [&] { (void)ctx.rank(); },
                                         [&] { (void)ctx.counters(); },
                                         [&] { (void)ctx.allocate(10); },
                                         [&] { (void)ctx.new_process_set({0}); },
                                         [&] { ctx.shutdown(); },
                                         [&] { set.allreduce(view); },
                                         [&] { set.close(); },
                                         [&] { sync.ready(0); },
                                         [&] { sync.wait(); },
                                         [&] { sync.exchange(); }};
  // An operation that completed before the fork is complete in the child, too.
  int count = pending.is_done() ? 0 : is_not_refused([&] { pending.wait(); });
  for (const auto& call : calls) count += is_not_refused(call);
  return count;
}

}  // namespace horo
