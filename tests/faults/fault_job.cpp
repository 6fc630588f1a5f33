// A job in which one rank fails in the middle of a step, for fault_test.py:
//   fault_job FAULT RANK
// FAULT: none, kill, throw, throw_slowly (and says why only after a moment), exit, normal_exit,
// thread_exit, terminate, abandon_set, return, in_flight or device (which stands in for a GPU, and
// whose rank goes on for a moment). Prints "rank N pid P" for each rank before the first step.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <stdexcept>
#include <thread>

#include "horo/base/device/host_device.h"
#include "horo/horo.h"

namespace {

struct Diverged : std::runtime_error {
  Diverged() : std::runtime_error("diverged") {}
};

void fail(const char* fault) {
  if (std::strcmp(fault, "kill") == 0) raise(SIGKILL);
  if (std::strncmp(fault, "throw", 5) == 0) throw Diverged();
  if (std::strcmp(fault, "exit") == 0) std::_Exit(3);
  if (std::strcmp(fault, "normal_exit") == 0) std::exit(0);
  if (std::strcmp(fault, "terminate") == 0) std::terminate();
  if (std::strcmp(fault, "thread_exit") == 0) std::thread([] { std::exit(3); }).join();
}

// Of operations that a rank leaves behind: they outlive main().
std::vector<float> in_flight(1000000);  // NOLINT: on purpose

void say_that_it_runs(const horo::Context& ctx) {
  std::printf("rank %d pid %d\n", ctx.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

void run_on_device(int failing_rank) {
  horo::Context ctx = horo::init();
  horo::device::HostDevice device;
  const horo::device::Memory memory = device.allocate(1000003 * sizeof(float));
  const auto stream = device.make_stream(horo::device::Priority::kNormal);
  const horo::TensorView view(reinterpret_cast<float*>(memory.data()), horo::Shape{1000003});
  const std::vector<horo::NamedTensor> gradients{{"g", view}};
  horo::DeviceGradientSync sync(ctx, device, gradients);
  say_that_it_runs(ctx);
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

void run(const char* fault, int failing_rank) {
  if (std::strcmp(fault, "device") == 0) return run_on_device(failing_rank);
  horo::Context ctx = horo::init();
  std::vector<int> all;
  for (int rank = 0; rank < ctx.size(); ++rank) all.push_back(rank);
  horo::ProcessSet set = ctx.new_process_set(all);
  const horo::Arena arena = ctx.allocate(10 * 1000000);  // half of the tensors lie in it
  std::vector<std::pmr::vector<float>> tensors;
  for (int t = 0; t < 20; ++t)
    tensors.emplace_back(200000, static_cast<float>(ctx.rank()),
                         t % 4 < 2 ? arena.resource() : std::pmr::get_default_resource());
  std::vector<horo::NamedTensor> gradients;
  for (auto& tensor : tensors)
    gradients.push_back({"g" + std::to_string(gradients.size()), horo::TensorView(tensor)});
  horo::GradientSync sync(ctx, gradients, {.bucket_bytes = 1 << 20});
  // Once all ranks say so, no shared memory has a name any more.
  say_that_it_runs(ctx);
  const bool is_endless = std::strcmp(fault, "none") != 0;
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
        fail(fault);
      }
    }
    if (std::strcmp(fault, "abandon_set") == 0 && step >= 5) set.barrier();
    sync.wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    run(argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    const bool is_own = dynamic_cast<const Diverged*>(&error) != nullptr;
    if (is_own && std::strcmp(argv[1], "throw_slowly") == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::fprintf(stderr, "fault_job: %s\n", error.what());
    return 1;
  }
}
