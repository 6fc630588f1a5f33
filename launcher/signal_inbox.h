#pragma once

#include <csignal>
#include <optional>
#include <vector>

namespace horo {

/// Receives signals through a file descriptor in place of handlers, from construction to
/// destruction. One at a time, before any other thread is started.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals);
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when a signal waits.
  int descriptor() const { return descriptor_; }
  /// The next waiting signal; none if no signal waits.
  std::optional<int> next();
  /// The mask of blocked signals as it was before, for a child process.
  const sigset_t& previous_mask() const { return previous_mask_; }

 private:
  sigset_t previous_mask_{};
  int descriptor_ = -1;
};

}  // namespace horo
