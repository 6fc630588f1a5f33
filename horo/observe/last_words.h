#pragma once

#include "horo/observe/flight_file.h"

namespace horo::observe {

/// Whether `signal` is sent to end a process (SIGTERM, SIGINT, SIGHUP), as launchers do to the
/// ranks that are left, and no crash.
bool is_outside_signal(int signal);

/// While this lives, a signal that ends the process leaves its number and time in `status` first:
/// those of is_outside_signal() where the program has no handler of its own, and SIGSEGV, SIGBUS,
/// SIGFPE, SIGILL and SIGABRT, after which the handler that was there before takes its turn. (So
/// the process that is gone without a word was killed by SIGKILL, or left by itself.) Thread-safe.
class LastWords {
 public:
  explicit LastWords(FlightStatus& status);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  FlightStatus& status_;
};

}  // namespace horo::observe
