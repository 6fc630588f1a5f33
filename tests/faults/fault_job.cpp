// A job in which one rank fails, for fault_test.py:
//   fault_job FAULT RANK
// Each rank prints "rank N pid P" after it has joined. The values of FAULT are:
// In a loop of allocations, at any moment:
//   kill_in_allocate, term_in_allocate
// In the middle of a step:
//   none, kill, throw, exit, normal_exit, thread_exit, abandon_set, return
//   throw_slowly: reports the cause only after a delay
//   quick_exit: calls _exit with code 0
//   callback: destroys the Context in a completion callback
//   in_flight: returns while operations are in flight
//   device: reports a GPU failure, and the process continues for a moment
//   not_ready: an InvalidArgument error
//   survived: a SIGSEGV that the program's handler leaves with siglongjmp
// An exception that is not caught, in the middle of a step:
//   uncaught, uncaught_nested, uncaught_int, uncaught_noexcept, uncaught_thread
//   own_handler: the program has its own std::terminate handler
// A crash in the middle of a step:
//   terminate, abort, segv
//   overflow: of the stack
//   heap: heap corruption
//   looping_handler: the program's SIGSEGV handler never returns
// While the other ranks wait in shutdown() or join():
//   throw_before_shutdown, throw_before_join
//   leak: leaks the Context and returns from main()
// On all ranks:
//   shutdown_exit: exits with code 0 after shutdown() and leaves a Context and a plan
//   shutdown_static: leaves a Context that exit() destroys
//   shutdown_alone: like shutdown_exit, but RANK never ends
// Before or inside init():
//   option: exits with code 2
//   bad_setting
//   segv_in_mpi_init, terminate_in_mpi_init: fail inside MPI_Init_thread
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/horo.h"

namespace {

struct Diverged : std::runtime_error {
  Diverged() : std::runtime_error("diverged") {}
};

[[gnu::noinline]] void diverge() { throw Diverged(); }
void throw_in_noexcept() noexcept { diverge(); }

void throw_nested() {
  try {
    throw Diverged();
  } catch (const Diverged&) {
    std::throw_with_nested(std::runtime_error("step 5"));
  }
}

std::string_view fault_in_mpi_init;  // empty: none

volatile int deepest = 1 << 30;          // NOLINT: volatile hides the value from the compiler
volatile std::uintptr_t no_address = 8;  // NOLINT: likewise

int overflow_stack(int depth) {
  volatile char frame[4096] = {};
  frame[depth % 4096] = 1;
  return depth == deepest ? 0 : overflow_stack(depth + 1) + frame[0];
}

char* volatile block = nullptr;  // NOLINT: likewise

// Makes glibc abort with "free(): invalid pointer".
void corrupt_heap() {
  block = static_cast<char*>(std::malloc(64)) + 8;
  std::free(block);  // NOLINT: on purpose
}

void loop_at(int) {
  while (true) pause();
}

sigjmp_buf recovery;

void recover(int) { siglongjmp(recovery, 1); }

// Survives a SIGSEGV and then stays absent for longer than a signal handler may run.
void survive_crash() {
  if (sigsetjmp(recovery, 1) == 0) raise(SIGSEGV);
  std::this_thread::sleep_for(std::chrono::seconds(3));
}

void end_in_own_handler() {
  std::fprintf(stderr, "fault_job: the program's own terminate handler\n");
  std::_Exit(9);
}

void crash(std::string_view fault) {
  if (fault == "terminate") std::terminate();
  if (fault == "abort") std::abort();
  if (fault == "segv") *reinterpret_cast<volatile int*>(no_address) = 1;  // NOLINT: on purpose
  if (fault == "overflow") std::printf("%d\n", overflow_stack(0));
  if (fault == "heap") corrupt_heap();
  if (fault == "looping_handler") raise(SIGSEGV);
  if (fault == "survived") survive_crash();
}

void fail(std::string_view fault) {
  if (fault == "kill") raise(SIGKILL);
  if (fault == "throw" || fault == "throw_slowly" || fault == "uncaught" || fault == "own_handler")
    throw Diverged();
  if (fault == "uncaught_nested") throw_nested();
  if (fault == "uncaught_int") throw 42;
  if (fault == "uncaught_noexcept") throw_in_noexcept();
  if (fault == "uncaught_thread") std::thread([] { throw Diverged(); }).join();
  if (fault == "exit") std::_Exit(3);
  if (fault == "quick_exit") std::_Exit(0);
  if (fault == "normal_exit") std::exit(0);
  if (fault == "thread_exit") std::thread([] { std::exit(3); }).join();
  crash(fault);
}

// Buffer of the operations that a rank leaves in flight. It outlives main().
std::vector<float> in_flight(1000000);  // NOLINT: on purpose

std::unique_ptr<horo::Context> kept;  // NOLINT: destroyed by exit()

void print_pid(const horo::Context& ctx) {
  std::printf("rank %d pid %d\n", ctx.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

void run_on_device(int failing_rank) {
  horo::Context ctx = horo::init();
  const auto device = std::make_shared<horo::device::HostDevice>();
  const horo::device::Memory memory = device->allocate(1000003 * sizeof(float));
  const auto stream = device->make_stream(horo::device::Priority::kNormal);
  const horo::TensorView view(reinterpret_cast<float*>(memory.data()), horo::Shape{1000003},
                              *device);
  const std::vector<horo::NamedTensor> gradients{{"g", view}};
  horo::GradientSync sync(ctx, gradients);
  print_pid(ctx);
  try {
    for (int step = 0;; ++step) {
      if (step == 5 && ctx.rank() == failing_rank)
        horo::device::submit(*stream, [] { throw horo::DeviceError("an illegal memory access"); });
      sync.ready(0, stream->native());
      sync.wait();
    }
  } catch (const horo::CommunicationError&) {
    if (ctx.rank() == failing_rank) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    throw;
  }
}

// Repeats allocations until a signal ends the failing rank, within a second.
void allocate_repeatedly(int failing_rank, int signal) {
  horo::Context ctx = horo::init();
  print_pid(ctx);
  if (ctx.rank() == failing_rank)
    std::thread([signal] {
      const auto delay = std::chrono::steady_clock::now().time_since_epoch().count() / 1000 % 1000;
      std::this_thread::sleep_for(std::chrono::milliseconds(delay));
      kill(getpid(), signal);
    }).detach();
  for (;;) (void)ctx.allocate(std::size_t{16} << 20);
}

// The destructor of a Context waits for the other ranks, so a callback must not run it.
void destroy_in_callback(int failing_rank) {
  auto ctx = std::make_unique<horo::Context>(horo::init());
  print_pid(*ctx);
  const bool is_failing = ctx->rank() == failing_rank;
  std::vector<float> x(1000, 1.0f);
  std::promise<void> is_destroyed;
  ctx->allreduce_async(x, {.name = "x"}).then([&](const std::exception_ptr&) {
    if (is_failing) ctx.reset();
    is_destroyed.set_value();
  });
  is_destroyed.get_future().wait();
  while (!is_failing) ctx->barrier();
}

// Runs the faults during which the other ranks wait in shutdown() or join().
void run_to_end(std::string_view fault, int failing_rank) {
  auto owner = std::make_unique<horo::Context>(horo::init());
  horo::Context& ctx = *owner;
  print_pid(ctx);
  std::vector<float> tensor(1000, 1.0f);
  for (int step = 0; step < 3; ++step) ctx.allreduce(horo::TensorView(tensor), {.name = "loss"});
  std::optional<horo::GradientSync> sync;
  if (fault == "shutdown_exit") {
    const std::vector<horo::NamedTensor> gradients{{"g", horo::TensorView(tensor)}};
    sync.emplace(ctx, gradients).exchange();
  }
  const bool is_failing = ctx.rank() == failing_rank;
  if (is_failing && fault == "leak") {
    (void)owner.release();
    return;
  }
  // Gives the other ranks time to enter the call.
  if (is_failing) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (is_failing && fault.starts_with("throw")) throw Diverged();
  if (fault == "throw_before_join") ctx.join();
  ctx.shutdown();
  if (is_failing && fault == "shutdown_alone") loop_at(0);
  if (fault == "shutdown_static") kept = std::move(owner);
  if (fault.starts_with("shutdown")) std::exit(0);
}

void run(const char* fault, int failing_rank) {
  if (std::strcmp(fault, "device") == 0) return run_on_device(failing_rank);
  if (std::strcmp(fault, "kill_in_allocate") == 0)
    return allocate_repeatedly(failing_rank, SIGKILL);
  if (std::strcmp(fault, "term_in_allocate") == 0)
    return allocate_repeatedly(failing_rank, SIGTERM);
  if (std::strcmp(fault, "callback") == 0) return destroy_in_callback(failing_rank);
  for (const char* end : {"throw_before_shutdown", "throw_before_join", "leak", "shutdown_exit",
                          "shutdown_static", "shutdown_alone"})
    if (std::strcmp(fault, end) == 0) return run_to_end(fault, failing_rank);
  horo::Context ctx = horo::init();
  std::vector<int> all;
  for (int rank = 0; rank < ctx.size(); ++rank) all.push_back(rank);
  horo::ProcessSet set = ctx.new_process_set(all);
  const horo::Arena arena = ctx.allocate(10 * 1000000);  // holds half of the tensors
  std::vector<std::pmr::vector<float>> tensors;
  for (int t = 0; t < 20; ++t)
    tensors.emplace_back(200000, static_cast<float>(ctx.rank()),
                         t % 4 < 2 ? arena.resource() : std::pmr::get_default_resource());
  std::vector<horo::NamedTensor> gradients;
  for (auto& tensor : tensors)
    gradients.push_back({"g" + std::to_string(gradients.size()), horo::TensorView(tensor)});
  horo::GradientSync sync(ctx, gradients, {.bucket_bytes = 1 << 20});
  print_pid(ctx);
  const bool is_endless = std::strcmp(fault, "none") != 0 && std::strcmp(fault, "survived") != 0;
  for (int step = 0; is_endless || step < 10; ++step) {
    for (std::size_t i = gradients.size(); i-- > 0;) {
      sync.ready(i);
      if (step == 5 && i == 10 && ctx.rank() == failing_rank) {
        if (std::strcmp(fault, "return") == 0) return;
        if (std::strcmp(fault, "in_flight") == 0) {
          (void)ctx.allreduce_async(horo::TensorView(in_flight), {.name = "of one rank"});
          (void)set.allreduce_async(horo::TensorView(in_flight), {.name = "of one rank"});
          return;
        }
        if (std::strcmp(fault, "abandon_set") == 0) {
          const horo::ProcessSet moved = std::move(set);
          throw Diverged();
        }
        if (std::strcmp(fault, "not_ready") == 0) sync.wait();
        fail(fault);
      }
    }
    if (std::strcmp(fault, "abandon_set") == 0 && step >= 5) set.barrier();
    sync.wait();
  }
}

}  // namespace

// Replaces Open MPI's function.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  crash(fault_in_mpi_init);
  return result;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view fault = argv[1];
  const int failing_rank = std::atoi(argv[2]);
  const char* launched = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool is_failing = launched != nullptr && std::atoi(launched) == failing_rank;
  if (is_failing && fault == "option") {
    std::fprintf(stderr, "fault_job: unknown option --stpes\n");
    return 2;
  }
  constexpr std::string_view kInMpiInit = "_in_mpi_init";
  if (is_failing && fault.ends_with(kInMpiInit))
    fault_in_mpi_init = fault.substr(0, fault.size() - kInMpiInit.size());
  if (is_failing && fault == "bad_setting") setenv("HORO_TIMEOUT", "soon", 1);
  if (fault == "shutdown_alone") setenv("HORO_TIMEOUT", "5s", 1);
  if (is_failing && fault == "looping_handler") signal(SIGSEGV, loop_at);
  if (is_failing && fault == "survived") signal(SIGSEGV, recover);
  if (is_failing && fault == "own_handler") std::set_terminate(end_in_own_handler);
  if (is_failing && (fault.starts_with("uncaught") || fault == "own_handler")) {
    run(argv[1], failing_rank);
    return 0;
  }
  try {
    run(argv[1], failing_rank);
    return 0;
  } catch (const std::exception& error) {
    const bool is_own = dynamic_cast<const Diverged*>(&error) != nullptr;
    if (is_own && fault == "throw_slowly")
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::fprintf(stderr, "fault_job: %s\n", error.what());
    return 1;
  }
}
