#include "launcher/signal_inbox.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "horo/base/error.h"

namespace horo {

SignalInbox::SignalInbox(const std::vector<int>& signals) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : signals) sigaddset(&mask, signal);
  descriptor_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw Error(std::string("signalfd: ") + std::strerror(errno));
  sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
}

SignalInbox::~SignalInbox() {
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
  close(descriptor_);
}

std::optional<int> SignalInbox::next() {
  signalfd_siginfo info{};
  if (read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace horo
