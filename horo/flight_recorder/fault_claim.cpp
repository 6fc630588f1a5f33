#include "horo/flight_recorder/fault_claim.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string_view>

#include "horo/flight_recorder/crash_text.h"

namespace horo::observe {
namespace {

// Layout of a Fault, from the lowest bit: thread id, signal, witness, and a counter that
// distinguishes faults whose other fields are equal.
constexpr int kThreadBits = 24, kSignalBits = 8;
constexpr int kWitnessAt = kThreadBits + kSignalBits, kNumberAt = kWitnessAt + kSignalBits;

std::atomic<Fault> claimed{0};
std::atomic<std::uint64_t> count{0};

constexpr int field(Fault fault, int at, int bits) {
  return static_cast<int>(fault >> at & ((Fault{1} << bits) - 1));
}
pid_t thread_of(Fault fault) { return field(fault, 0, kThreadBits); }

bool has_ended(pid_t thread) {
  return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

// Returns the signals that a thread of this process blocks: bit i is set for signal i + 1. Returns
// nullopt if they cannot be determined. Must stay async-signal-safe.
std::optional<std::uint64_t> blocked_signals(pid_t thread) {
  CrashText path;
  path.add("/proc/self/task/").add(std::int64_t{thread}).add("/status");
  const int file = open(path.text(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char bytes[4096];
  const ssize_t length = read(file, bytes, sizeof bytes);
  close(file);
  if (length <= 0) return std::nullopt;
  constexpr std::string_view kField = "\nSigBlk:\t";
  const std::string_view text(bytes, static_cast<std::size_t>(length));
  const std::size_t at = text.find(kField);
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t blocked = 0;
  const char* const number = text.data() + at + kField.size();
  if (std::from_chars(number, text.data() + text.size(), blocked, 16).ec != std::errc{})
    return std::nullopt;
  return blocked;
}

}  // namespace

// The kernel blocks a signal in the thread that handles it, unless the action has SA_NODEFER.
int block_witness(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, signal) != 0) return signal;
  int witness = SIGRTMAX;
  while (witness >= SIGRTMIN && sigismember(&blocked, witness) != 0) --witness;
  if (witness < SIGRTMIN) return 0;
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, witness);
  pthread_sigmask(SIG_BLOCK, &own, nullptr);
  return witness;
}

// After a failed exchange, `holder` is the current claim. The loop tries to replace that claim,
// unless another thread still handles the claimed fault.
FaultClaim claim_fault(int signal, int witness) {
  const pid_t self = gettid();
  const Fault fault = count.fetch_add(1) << kNumberAt | static_cast<Fault>(witness) << kWitnessAt |
                      static_cast<Fault>(signal) << kThreadBits | static_cast<Fault>(self);
  Fault holder = 0;
  while (!claimed.compare_exchange_strong(holder, fault))
    if (thread_of(holder) != self && holder != 0 && is_handled_now(holder)) return {};
  return {fault, holder != 0 && thread_of(holder) == self ? holder : 0};
}

Fault claimed_fault() { return claimed; }

int signal_of(Fault fault) { return field(fault, kThreadBits, kSignalBits); }

bool is_handled_now(Fault fault) {
  const pid_t thread = thread_of(fault);
  if (has_ended(thread)) return false;
  const int witness = field(fault, kWitnessAt, kSignalBits);
  if (witness == 0) return true;
  const auto blocked = blocked_signals(thread);
  return !blocked || (*blocked >> (witness - 1) & 1) != 0;
}

bool release_fault(const FaultClaim& claim) {
  Fault fault = claim.fault;
  return claimed.compare_exchange_strong(fault, claim.outer);
}

}  // namespace horo::observe
