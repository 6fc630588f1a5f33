#include "horo/observe/crash_recorder.h"

#include <cxxabi.h>
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

#include "horo/observe/crash_text.h"
#include "horo/observe/fault_claim.h"
#include "horo/observe/flight_layout.h"

namespace horo::observe {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// How long a process whose exception follows from another rank's failure leaves that rank to end
// first, with its own text.
constexpr timespec kTimeForTheFirst{3, 0};
// How long a thread that crashes waits for the thread that reports and ends the process.
constexpr timespec kTimeToEnd{5, 0};

// A handler finds things by static variables only, which a damaged heap leaves alone. It reads them
// while other threads change them: `header` is the first field to be set and the first to be reset.
struct Listener {
  std::atomic<FlightHeader*> header{nullptr};
  std::atomic<AbortSignal*> abort{nullptr};
  char rank[200] = {};
};
std::array<Listener, 16> listeners{};
struct sigaction previous[std::size(kSignals)];
bool is_installed[std::size(kSignals)];
std::terminate_handler previous_terminate = nullptr;  // null: ours is not installed
std::atomic<pid_t> home{0};  // a child of fork() inherits the handlers, and the file is not its own
std::atomic<pid_t> ending_thread{0};  // it ends the process, and says why
std::atomic<bool> has_reported{false};
std::mutex mutex;  // guards changes of the above
int listener_count = 0;
// For a handler that runs because the stack is full.
alignas(16) char alternate_stack[64 * 1024];

using Action = struct sigaction;

bool is_default(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_ignored(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

// Open MPI's handler prints the stack, and may wait for ever for a lock of the heap.
bool is_of_open_mpi(const Action& action) {
  void* address = (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(action.sa_sigaction)
                                                      : reinterpret_cast<void*>(action.sa_handler);
  Dl_info library{};
  if (address == nullptr || dladdr(address, &library) == 0 || library.dli_fname == nullptr)
    return false;
  for (const char* name : {"libopen-pal", "libopen-rte", "libmpi"})
    if (std::strstr(library.dli_fname, name) != nullptr) return true;
  return false;
}

std::size_t place_of(int signal) {
  std::size_t place = 0;
  while (kSignals[place] != signal) ++place;
  return place;
}

std::int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

template <typename Use>
void for_each_listener(const Use& use) {
  for (Listener& listener : listeners)
    if (FlightHeader* header = listener.header.load(std::memory_order_acquire))
      use(listener, *header);
}

// Without the recorder's lock, which the thread that crashed may hold.
void record_failure(Listener& listener, FlightStatus& status, std::string_view text) {
  const FlightState state = look_at(status.state);
  if (state != FlightState::kRunning && state != FlightState::kFailed) return;
  const AbortSignal* abort = listener.abort.load();
  const bool is_aborted = state == FlightState::kRunning && abort != nullptr && abort->is_raised();
  if (is_aborted) text = abort->view();
  const std::size_t length = std::min(text.size(), sizeof status.failure - 1);
  std::memcpy(status.failure, text.data(), length);
  status.failure[length] = '\0';
  if (state == FlightState::kFailed) return;
  publish(status.state_since, monotonic_now());
  publish_last(status.state, is_aborted ? FlightState::kAborted : FlightState::kFailed);
}

// Other threads claim and release faults meanwhile.
void show_claimed_fault() {
  Fault shown = 0;
  do {
    shown = claimed_fault();
    for_each_listener([&](Listener&, FlightHeader& header) {
      std::atomic_ref(header.status.signal).store(static_cast<std::uint32_t>(signal_of(shown)));
    });
  } while (shown != claimed_fault());
}

// The kernel blocks a signal in the thread that handles it, unless its action has SA_NODEFER. Then
// the witness is a real-time signal that the thread does not block yet; 0 if it blocks all.
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

FaultClaim record_fault(int signal) {
  const FaultClaim claim = claim_fault(signal, block_witness(signal));
  if (claim.fault == 0) return claim;
  const std::int64_t now = monotonic_now();
  for_each_listener(
      [&](Listener&, FlightHeader& header) { publish(header.status.signal_at, now); });
  show_claimed_fault();
  return claim;
}

void forget_fault(const FaultClaim& claim) {
  if (release_fault(claim)) show_claimed_fault();
}

// Of several jobs of one process each records it and ends, and the first gives the line. False:
// there is no job, or it has been reported.
bool report(const auto& compose) {
  bool has_line = false;
  if (has_reported.exchange(true)) return has_line;
  for_each_listener([&](Listener& listener, FlightHeader& header) {
    CrashText text;
    compose(text, listener, header);
    record_failure(listener, header.status, text.view());
    if (!has_line) {
      CrashText line;
      line.add("horo: ").add(text.view()).write_to_errors();
      has_line = true;
    }
    if (AbortSignal* abort = listener.abort.load()) abort->raise(text.view());
  });
  return has_line;
}

void report_crash(int signal) {
  const char* name = sigdescr_np(signal);
  report([&](CrashText& text, const Listener& listener, const FlightHeader& header) {
    text.add(listener.rank).add(" crashed: signal ").add(std::int64_t{signal});
    text.add(" (").add(name == nullptr ? "?" : name).add(")");
    add_last_operation(text, header);
  });
}

// The signal is blocked until it ends the process, so that the fault stays claimed.
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

enum class Turn { kFirst, kAgain, kLater };

// kAgain: the thread ends the process already, and what it called for that has brought it here.
Turn take_turn() {
  pid_t holder = 0;
  if (ending_thread.compare_exchange_strong(holder, gettid())) return Turn::kFirst;
  return holder == gettid() ? Turn::kAgain : Turn::kLater;
}

[[noreturn]] void end_of_home(int signal) {
  const Turn turn = take_turn();
  if (turn == Turn::kLater) nanosleep(&kTimeToEnd, nullptr);
  if (turn != Turn::kLater && !is_outside_signal(signal)) report_crash(signal);
  die(signal);
}

// Async-signal-safe, but for what a handler of the program does that it calls.
void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const Action& other = previous[place_of(signal)];
  // The kernel does not let a process ignore its own fault.
  if (is_ignored(other) && info->si_code <= 0) return;
  const bool is_home = getpid() == home;
  const FaultClaim claim = is_home ? record_fault(signal) : FaultClaim{};
  if (is_default(other) || is_ignored(other)) {
    if (is_home) end_of_home(signal);
    die(signal);
  }
  if ((other.sa_flags & SA_SIGINFO) != 0)
    other.sa_sigaction(signal, info, context);
  else
    other.sa_handler(signal);
  // The program continues, unless abort() or a restored default action ends it now.
  Action left{};
  const bool continues = sigaction(signal, nullptr, &left) == 0 && !is_default(left);
  if (claim.fault != 0 && continues && signal != SIGABRT) forget_fault(claim);
  errno = error;
}

bool is_ours(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_signal;
}

void add_exception(CrashText& text, const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    text.add(error.what());
    const auto* nested = dynamic_cast<const std::nested_exception*>(&error);
    if (nested == nullptr || nested->nested_ptr() == nullptr) return;
    text.add("; caused by: ");
    add_exception(text, nested->nested_ptr());
  } catch (...) {
    text.add("unknown exception");
  }
}

void add_uncaught(CrashText& text) {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) {
    // Compilers may have a noexcept function call std::terminate() before the exception is caught.
    text.add(std::uncaught_exceptions() > 0
                 ? " ended with an exception that left a noexcept function or a destructor"
                 : " called std::terminate() without an exception");
    return;
  }
  const std::type_info* type = abi::__cxa_current_exception_type();
  int status = 0;
  const char* name =
      type == nullptr ? nullptr : abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  text.add(" ended with an uncaught exception (");
  text.add(name != nullptr ? name : type != nullptr ? type->name() : "?").add("): ");
  add_exception(text, exception);
}

bool is_any_aborted() {
  bool is_raised = false;
  for_each_listener([&](Listener& listener, FlightHeader&) {
    const AbortSignal* abort = listener.abort.load();
    is_raised |= abort != nullptr && abort->is_raised();
  });
  return is_raised;
}

// Returns false if there was no job to report to.
bool report_uncaught() {
  const bool follows = is_any_aborted();
  CrashText reason;
  add_uncaught(reason);
  // What ends the process meanwhile would cut the report off.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const bool is_said = report([&](CrashText& text, const Listener& listener, const FlightHeader&) {
    text.add(listener.rank).add(reason.view());
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_said && follows) nanosleep(&kTimeForTheFirst, nullptr);
  return is_said;
}

// Another thread may have been ending the parent when it was forked.
Turn take_turn_in_child() {
  return ending_thread.exchange(gettid()) == gettid() ? Turn::kAgain : Turn::kFirst;
}

// One thread ends the process. Another waits for that. What the handler itself calls must not bring
// it here again.
void on_terminate() {
  const bool is_home = getpid() == home;
  const Turn turn = is_home ? take_turn() : take_turn_in_child();
  if (turn == Turn::kAgain) die(SIGABRT);
  while (turn == Turn::kLater) pause();
  const bool is_said = is_home && report_uncaught();
  const std::terminate_handler next = previous_terminate;
  const bool says_it_again = is_said && next == __gnu_cxx::__verbose_terminate_handler;
  if (next != nullptr && !says_it_again) next();
  std::abort();  // A handler of the program for SIGABRT is called.
}

// The kernel treats ours as the program's own handler has asked it to.
Action action_before(const Action& other) {
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
    // A handler that came after ours may call it: installed anew, ours would call that one again.
    if (is_installed[i] && !is_default(current)) continue;
    // A program that handles it may go on.
    if (is_outside_signal(kSignals[i]) && !is_default(current)) continue;
    if (is_of_open_mpi(current)) {
      current = {};
      current.sa_handler = SIG_DFL;
    }
    previous[i] = current;
    const Action action = action_before(current);
    is_installed[i] = sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

// Of the thread that calls init(), unless it has one.
void install_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  stack.ss_flags = 0;
  sigaltstack(&stack, nullptr);
}

// Like the handlers of signals, it stays below one that came later.
void install_terminate() {
  if (previous_terminate == nullptr) previous_terminate = std::set_terminate(on_terminate);
}

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

bool is_outside_signal(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

void forget_survived_fault() {
  // A recorder that goes may be unmapped after it. The next call does what this one leaves.
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return;
  const Fault fault = claimed_fault();
  if (fault != 0 && !is_handled_now(fault)) forget_fault({.fault = fault});
}

CrashRecorder::CrashRecorder(FlightHeader& header, AbortSignal* abort, std::string_view rank)
    : header_(header) {
  const std::scoped_lock lock(mutex);
  for (Listener& listener : listeners) {
    if (listener.header.load() != nullptr) continue;
    listener.abort = abort;
    const std::size_t length = std::min(rank.size(), sizeof listener.rank - 1);
    std::memcpy(listener.rank, rank.data(), length);
    listener.rank[length] = '\0';
    listener.header.store(&header, std::memory_order_release);
    break;
  }
  home = getpid();
  if (listener_count++ > 0) return;
  install_stack();
  install_signals();
  install_terminate();
}

CrashRecorder::~CrashRecorder() {
  const std::scoped_lock lock(mutex);
  for (Listener& listener : listeners)
    if (listener.header.load() == &header_) listener.header.store(nullptr);
  if (--listener_count == 0) uninstall();
}

}  // namespace horo::observe
