// A training loop in which one rank fails at a random moment, for watchdog_test.py:
//   watched_job FAULT RANK SEED
// Each rank first prints "rank N pid P". FAULT is one of:
//   none, kill, stop, exit, throw, mismatch, missing, alone, late
//   endless: trains forever without a fault
//   registering: registers plans forever without a fault
//   stuck: late while the others exchange gradients
//   no_finalize: late between shutdown() and MPI_Finalize
//   stop_late: stopped between shutdown() and MPI_Finalize
//   callback: a completion callback does not return
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "horo/horo.h"

namespace {

struct Fault {
  std::string kind;
  int rank = 0;
  int step = 0;
  int moment = 0;  // 0: before the gradients of the step, 1: between them, 2: after them
};

// Depends only on the arguments, so that all ranks agree on the fault.
Fault make_fault(const std::string& kind, int rank, unsigned seed) {
  std::mt19937 random(seed);
  Fault fault{kind, rank};
  fault.step = 1 + static_cast<int>(random() % 40);
  fault.moment = kind == "stuck" ? 0 : static_cast<int>(random() % 3);
  return fault;
}

void inject(const Fault& fault, int moment) {
  if (fault.moment != moment) return;
  if (fault.kind == "kill") raise(SIGKILL);
  if (fault.kind == "stop") raise(SIGSTOP);
  if (fault.kind == "exit") std::exit(0);
  if (fault.kind == "throw") throw std::runtime_error("diverged");
  if (fault.kind == "late" || fault.kind == "stuck")
    std::this_thread::sleep_for(std::chrono::hours(1));
}

void train(horo::Context& ctx, const Fault& fault) {
  std::printf("rank %d pid %d\n", ctx.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  std::vector<std::vector<float>> tensors;
  for (int t = 0; t < 6; ++t) tensors.emplace_back(20001, static_cast<float>(ctx.rank() + t));
  std::vector<horo::NamedTensor> gradients;
  for (auto& tensor : tensors)
    gradients.push_back({"g" + std::to_string(gradients.size()), horo::TensorView(tensor)});
  while (fault.kind == "registering") horo::GradientSync(ctx, gradients, {.bucket_bytes = 100000});
  horo::GradientSync sync(ctx, gradients, {.bucket_bytes = 100000});
  std::vector<float> metric(3);
  std::vector<float> more(4);
  const bool ends = fault.kind == "no_finalize" || fault.kind == "stop_late";
  const bool is_endless = fault.kind != "none" && !ends;
  for (int step = 0; is_endless || step < 50; ++step) {
    const bool is_here = step == fault.step && ctx.rank() == fault.rank;
    if (is_here) inject(fault, 0);
    for (std::size_t i = gradients.size(); i-- > 0;) {
      sync.ready(i);
      if (is_here && i == 3) inject(fault, 1);
    }
    sync.wait();
    if (is_here) inject(fault, 2);
    if (is_here && fault.kind == "alone") ctx.allreduce(horo::TensorView(more), {.name = "alone"});
    if (is_here && fault.kind == "missing") continue;
    if (is_here && fault.kind == "callback")
      ctx.allreduce_async(horo::TensorView(metric), {.name = "metric"}).then([](auto) {
        std::this_thread::sleep_for(std::chrono::hours(1));
      });
    if (fault.kind == "callback" && step >= fault.step) {
      if (step == fault.step) {
        // Waits until the callback is registered. A callback that is registered after completion
        // would run on the registering thread.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        if (!is_here) ctx.allreduce(horo::TensorView(metric), {.name = "metric"});
      }
      // The first "next" completes if its response reaches the failing rank in the same round as
      // that of "metric", before the callback runs. The "next" of the following step cannot.
      ctx.allreduce_async(horo::TensorView(more), {.name = "next"}).wait();
      continue;
    }
    const bool is_odd = is_here && fault.kind == "mismatch";
    ctx.allreduce(horo::TensorView(is_odd ? more : metric), {.name = "metric"});
  }
}

void run(const Fault& fault) {
  horo::Context ctx = horo::init();
  train(ctx, fault);
  ctx.shutdown();
  if (ctx.rank() != fault.rank) return;
  if (fault.kind == "stop_late") raise(SIGSTOP);
  if (fault.kind == "no_finalize") std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    run(make_fault(argv[1], std::atoi(argv[2]), static_cast<unsigned>(std::atoi(argv[3]))));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "watched_job: %s\n", error.what());
    return 1;
  }
}
