#pragma once

#include <functional>

namespace horo {

/// Calls a function when the process ends by exit() or by a return from main(), after the
/// destructors of static objects. Thread-safe.
class ExitWatch {
 public:
  /// Throws ShutdownError in a process that was forked after the first object was made.
  ExitWatch();
  /// Calls unwatch().
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

  /// Registers `at_exit`, which receives the exit code and may call unwatch(). The caller must call
  /// watch() at most once.
  void watch(std::function<void(int exit_code)> at_exit);
  /// Removes the function. After this call has returned, the function does not start. If it is
  /// running on another thread, waits for it.
  void unwatch();
  /// Call this function when this process fails because another rank failed. If on_exit() runs
  /// within the next three seconds, it returns only when they have passed. mpirun ends a job as
  /// soon as one process exits with an error. Without the delay, the job could end before the rank
  /// that failed first has reported its error.
  static void exit_late();
  /// Runs when the process ends. Calls and removes the functions of all objects. Then waits until
  /// the delay of exit_late(), if any, has passed. Does nothing if the process has made no object,
  /// or was forked after the first one.
  static void on_exit();

 private:
  std::function<void(int)> at_exit_;
};

}  // namespace horo
