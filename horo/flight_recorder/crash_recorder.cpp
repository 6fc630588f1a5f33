#include "horo/flight_recorder/crash_recorder.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

#include "horo/flight_recorder/crash_text.h"
#include "horo/flight_recorder/fault_claim.h"
#include "horo/flight_recorder/flight_memory.h"

namespace horo::observe {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// If the abort signal was raised before an uncaught exception, another rank has probably failed
// first. This process then waits this long before it ends, so that the other rank ends first with
// its own text.
constexpr timespec kRootCauseGrace{3, 0};
// If one thread is already ending the process, another thread that handles a signal waits this
// long, so that the first thread can report its failure.
constexpr timespec kTerminationWait{5, 0};

// Signal handlers use static variables only, because the heap may be damaged. A handler may read a
// registration while another thread changes it. Therefore `header` is stored last, with release
// order, when a registration is added, and is cleared when the registration is removed. A handler
// skips registrations whose header is null.
struct Registration {
  std::atomic<FlightHeader*> header{nullptr};
  std::atomic<AbortSignal*> abort{nullptr};
  char rank[200] = {};
};
std::array<Registration, 16> registrations{};
struct sigaction previous[std::size(kSignals)];
bool is_installed[std::size(kSignals)];
std::terminate_handler previous_terminate = nullptr;  // null if on_terminate() is not installed
// A child of fork() inherits the handlers, but must not write to its parent's file.
std::atomic<pid_t> owner_pid{0};
std::atomic<pid_t> ending_thread{0};  // the thread that reports the failure and ends the process
std::atomic<bool> has_reported{false};
std::mutex mutex;  // guards installation and registration; never locked by a handler
int registration_count = 0;
// The alternate signal stack of the thread that calls horo::init(). A handler can run on this stack
// after the thread's own stack has overflowed.
alignas(16) char alternate_stack[64 * 1024];

using Action = struct sigaction;

bool is_default(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_ignored(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

// Open MPI's handler prints a stack trace. If the heap is damaged, that handler may block forever
// on a lock of the heap.
bool belongs_to_open_mpi(const Action& action) {
  void* address = (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(action.sa_sigaction)
                                                      : reinterpret_cast<void*>(action.sa_handler);
  Dl_info library{};
  if (address == nullptr || dladdr(address, &library) == 0 || library.dli_fname == nullptr)
    return false;
  for (const char* name : {"libopen-pal", "libopen-rte", "libmpi"})
    if (std::strstr(library.dli_fname, name) != nullptr) return true;
  return false;
}

std::size_t index_of(int signal) {
  std::size_t index = 0;
  while (kSignals[index] != signal) ++index;
  return index;
}

std::int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

template <typename Use>
void for_each_registration(const Use& use) {
  for (Registration& registration : registrations)
    if (FlightHeader* header = registration.header.load(std::memory_order_acquire))
      use(registration, *header);
}

// Records a crash or an uncaught exception. If the rank has failed before, replaces only the text.
// Does nothing if the rank has ended or was aborted. Does not take the recorder's lock, because the
// crashed thread may hold that lock.
void record_failure(Registration& registration, FlightStatus& status, std::string_view text) {
  const FlightState state = load_relaxed(status.state);
  if (state != FlightState::kRunning && state != FlightState::kFailed) return;
  const AbortSignal* abort = registration.abort.load();
  const bool is_aborted = state == FlightState::kRunning && abort != nullptr && abort->is_raised();
  if (is_aborted) text = abort->view();
  const std::size_t length = std::min(text.size(), sizeof status.failure - 1);
  std::memcpy(status.failure, text.data(), length);
  status.failure[length] = '\0';
  if (state == FlightState::kFailed) return;
  store_relaxed(status.state_since, monotonic_now());
  store_release(status.state, is_aborted ? FlightState::kAborted : FlightState::kFailed);
}

// Stores the signal of the claimed fault, or 0, in all registered headers. Other threads may claim
// and release faults concurrently. So this function repeats until the claimed fault has not changed
// during one pass.
void publish_claimed_fault() {
  Fault shown = 0;
  do {
    shown = claimed_fault();
    for_each_registration([&](Registration&, FlightHeader& header) {
      std::atomic_ref(header.status.signal).store(static_cast<std::uint32_t>(signal_of(shown)));
    });
  } while (shown != claimed_fault());
}

// Stores the time before the signal, so that a reader that sees a signal also sees a time.
FaultClaim record_fault(int signal) {
  const FaultClaim claim = claim_fault(signal, block_witness(signal));
  if (claim.fault == 0) return claim;
  const std::int64_t now = monotonic_now();
  for_each_registration(
      [&](Registration&, FlightHeader& header) { store_relaxed(header.status.signal_at, now); });
  publish_claimed_fault();
  return claim;
}

void clear_fault(const FaultClaim& claim) {
  if (release_fault(claim)) publish_claimed_fault();
}

// If the process runs several jobs, records the failure in each job and raises the abort signal of
// each job. Prints only the text for the first job. Returns false if there is no job or a failure
// was reported before.
bool report(const auto& compose) {
  bool has_printed = false;
  if (has_reported.exchange(true)) return has_printed;
  for_each_registration([&](Registration& registration, FlightHeader& header) {
    CrashText text;
    compose(text, registration, header);
    record_failure(registration, header.status, text.view());
    if (!has_printed) {
      CrashText line;
      line.add("horo: ").add(text.view()).write_to_stderr();
      has_printed = true;
    }
    if (AbortSignal* abort = registration.abort.load()) abort->raise(text.view());
  });
  return has_printed;
}

void report_crash(int signal) {
  const char* name = sigdescr_np(signal);
  report([&](CrashText& text, const Registration& registration, const FlightHeader& header) {
    text.add(registration.rank).add(" crashed: signal ").add(std::int64_t{signal});
    text.add(" (").add(name == nullptr ? "?" : name).add(")");
    add_last_operation(text, header);
  });
}

// Ends the process by `signal`. Blocks the signal until it is pending, so that the fault stays
// claimed until the process ends.
[[noreturn]] void die(int signal) {
  Action action{};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  pthread_sigmask(SIG_BLOCK, &own, nullptr);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  _exit(128 + signal);
}

enum class Terminator { kThisThread, kReentered, kOtherThread };

// Makes this thread the one that ends the process, unless there is such a thread already. Returns
// kReentered if this thread is already ending the process, and code that it has called has failed
// too.
Terminator claim_termination() {
  pid_t holder = 0;
  if (ending_thread.compare_exchange_strong(holder, gettid())) return Terminator::kThisThread;
  return holder == gettid() ? Terminator::kReentered : Terminator::kOtherThread;
}

// A termination signal is not a crash, so it is not reported. If another thread is already ending
// the process, this thread first waits, so that the other thread can report.
[[noreturn]] void end_owner_process(int signal) {
  const Terminator terminator = claim_termination();
  if (terminator == Terminator::kOtherThread) nanosleep(&kTerminationWait, nullptr);
  if (terminator != Terminator::kOtherThread && !is_termination_signal(signal))
    report_crash(signal);
  die(signal);
}

// Async-signal-safe, apart from the program's handler, which it may call.
void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const Action& other = previous[index_of(signal)];
  // Ignores the signal if the program ignored it before on_signal() was installed. A signal that
  // the kernel raised for a fault cannot be ignored.
  if (is_ignored(other) && info->si_code <= 0) return;
  const bool is_owner = getpid() == owner_pid;
  const FaultClaim claim = is_owner ? record_fault(signal) : FaultClaim{};
  if (is_default(other) || is_ignored(other)) {
    if (is_owner) end_owner_process(signal);
    die(signal);
  }
  if ((other.sa_flags & SA_SIGINFO) != 0)
    other.sa_sigaction(signal, info, context);
  else
    other.sa_handler(signal);
  // If the program's handler returns, the process continues, unless abort() raised the signal or
  // the handler has restored the default action.
  Action current{};
  const bool continues = sigaction(signal, nullptr, &current) == 0 && !is_default(current);
  if (claim.fault != 0 && continues && signal != SIGABRT) clear_fault(claim);
  errno = error;
}

bool is_ours(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_signal;
}

bool is_any_aborted() {
  bool is_raised = false;
  for_each_registration([&](Registration& registration, FlightHeader&) {
    const AbortSignal* abort = registration.abort.load();
    is_raised |= abort != nullptr && abort->is_raised();
  });
  return is_raised;
}

// Returns false if there is no job or a failure was reported before.
bool report_uncaught() {
  const bool is_consequence = is_any_aborted();
  CrashText reason;
  add_uncaught_exception(reason);
  // Blocks all signals, because a signal that ends the process could truncate the report.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const bool is_reported =
      report([&](CrashText& text, const Registration& registration, const FlightHeader&) {
        text.add(registration.rank).add(reason.view());
      });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_reported && is_consequence) nanosleep(&kRootCauseGrace, nullptr);
  return is_reported;
}

// If another thread was ending the parent at the time of fork(), ending_thread has the id of that
// thread. The thread does not exist in the child, so the child overwrites the id.
Terminator claim_termination_in_child() {
  return ending_thread.exchange(gettid()) == gettid() ? Terminator::kReentered
                                                      : Terminator::kThisThread;
}

// One thread ends the process, and other threads wait. If code that this handler calls terminates
// again, the process ends at once. libstdc++'s verbose handler is skipped after a report, because
// that handler would print the same exception again.
void on_terminate() {
  const bool is_owner = getpid() == owner_pid;
  const Terminator terminator = is_owner ? claim_termination() : claim_termination_in_child();
  if (terminator == Terminator::kReentered) die(SIGABRT);
  while (terminator == Terminator::kOtherThread) pause();
  const bool is_reported = is_owner && report_uncaught();
  const std::terminate_handler next = previous_terminate;
  const bool is_duplicate = is_reported && next == __gnu_cxx::__verbose_terminate_handler;
  if (next != nullptr && !is_duplicate) next();
  std::abort();  // calls the program's handler for SIGABRT, if any
}

// If the program has a handler, keeps the flags and the mask of its action, so that the kernel
// calls on_signal() under the same conditions.
Action make_action(const Action& other) {
  Action action = other;
  if (is_default(other) || is_ignored(other)) {
    action.sa_flags = SA_ONSTACK;
    sigfillset(&action.sa_mask);
  }
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = on_signal;
  return action;
}

void install_signals() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    Action current{};
    if (sigaction(kSignals[i], nullptr, &current) != 0) continue;
    // A handler that was installed after on_signal() may call on_signal(). If on_signal() were
    // installed again, the two handlers would call each other without end.
    if (is_installed[i] && !is_default(current)) continue;
    // A program that handles or ignores this signal may continue to run, so the signal is not
    // recorded.
    if (is_termination_signal(kSignals[i]) && !is_default(current)) continue;
    if (belongs_to_open_mpi(current)) {
      current = {};
      current.sa_handler = SIG_DFL;
    }
    previous[i] = current;
    const Action action = make_action(current);
    is_installed[i] = sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

// Installs the alternate stack for the calling thread, unless the thread already has one.
void install_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  stack.ss_flags = 0;
  sigaltstack(&stack, nullptr);
}

// Not installed again while on_terminate() may still be called, because a handler that the program
// installs later may call on_terminate().
void install_terminate() {
  if (previous_terminate == nullptr) previous_terminate = std::set_terminate(on_terminate);
}

// Removes only the handlers that are the current ones. A handler that the program has installed
// later may call on_signal() or on_terminate(), so these functions remain usable.
void uninstall() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    Action current{};
    if (!is_installed[i] || sigaction(kSignals[i], nullptr, &current) != 0 || !is_ours(current))
      continue;
    sigaction(kSignals[i], &previous[i], nullptr);
    is_installed[i] = false;
  }
  if (std::get_terminate() == on_terminate)
    std::set_terminate(std::exchange(previous_terminate, nullptr));
}

}  // namespace

bool is_termination_signal(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

void clear_survived_fault() {
  // The lock keeps the registered headers mapped. If another thread holds the lock, a later call
  // clears the fault.
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  const Fault fault = claimed_fault();
  if (fault != 0 && !is_handled_now(fault)) clear_fault({.fault = fault});
}

CrashRecorder::CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank)
    : header_(header) {
  const std::scoped_lock lock(mutex);
  for (Registration& registration : registrations) {
    if (registration.header.load() != nullptr) continue;
    registration.abort = abort;
    const std::size_t length = std::min(rank.size(), sizeof registration.rank - 1);
    std::memcpy(registration.rank, rank.data(), length);
    registration.rank[length] = '\0';
    registration.header.store(&header, std::memory_order_release);
    break;
  }
  owner_pid = getpid();
  if (registration_count++ > 0) return;
  install_stack();
  install_signals();
  install_terminate();
}

CrashRecorder::~CrashRecorder() {
  const std::scoped_lock lock(mutex);
  for (Registration& registration : registrations)
    if (registration.header.load() == &header_) registration.header.store(nullptr);
  if (--registration_count == 0) uninstall();
}

}  // namespace horo::observe
