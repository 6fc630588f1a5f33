// A job that goes wrong in one rank, for doctor_test.py:
//   doctor_job FAULT RANK
// FAULT: kill, kill_named, crash, throw, return (the rank ends in the middle of a step), stop (it
// is stopped), absent (it never submits what the others do), unmarked (it never marks a gradient),
// alone (it submits what nobody else does), pause (it lets the others wait on purpose), slow (its
// data takes time), none.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "horo/horo.h"

namespace {

void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

class Job {
 public:
  Job(const std::string& fault, int faulty_rank)
      : ctx_(horo::init()), fault_(fault), is_faulty_(ctx_.rank() == faulty_rank) {}

  void run() {
    std::vector<float> weight(50000, static_cast<float>(ctx_.rank()));
    std::vector<float> bias(100, 1.0f);
    const std::vector<horo::NamedTensor> gradients = {{"fc2.weight", horo::TensorView(weight)},
                                                      {"fc2.bias", horo::TensorView(bias)}};
    horo::GradientSync sync(ctx_, gradients, {.name = "grad", .bucket_bytes = 1024});
    const bool ends = fault_ == "none" || fault_ == "slow";
    for (int step = 0; !ends || step < 20; ++step) {
      const horo::Phase phase = ctx_.phase("step");
      if (fault_ == "slow" && is_faulty_) {
        const horo::Phase data = ctx_.phase("data");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      sync.ready(1);
      if (step == 10 && is_faulty_ && !in_gradients()) return;
      sync.ready(0);
      sync.wait();
      if (step == 10 && !in_named_operations()) return;
      float loss = static_cast<float>(step);
      ctx_.allreduce(horo::TensorView(&loss, {1}), {.name = "loss"});
    }
  }

 private:
  // False: the rank leaves.
  bool in_gradients() {
    if (fault_ == "kill") raise(SIGKILL);
    if (fault_ == "crash") raise(SIGSEGV);
    if (fault_ == "throw") throw std::runtime_error("diverged");
    if (fault_ == "stop") raise(SIGSTOP);
    if (fault_ == "unmarked") {
      const horo::Phase phase = ctx_.phase("backward");
      sleep_for_ever();
    }
    return true;
  }

  bool in_named_operations() {
    float metric = 1;
    if (fault_ == "alone") {
      if (is_faulty_)
        ctx_.allreduce(horo::TensorView(&metric, {1}), {.name = "metric"});
      else
        ctx_.barrier({.name = "end of epoch"});
    }
    if (!is_faulty_) return true;
    if (fault_ == "kill_named") raise(SIGKILL);
    if (fault_ == "return") return false;
    if (fault_ == "absent") {
      const horo::Phase phase = ctx_.phase("data");
      sleep_for_ever();
    }
    if (fault_ == "pause") {
      const horo::Phase pause = ctx_.pause("checkpoint");
      sleep_for_ever();
    }
    return true;
  }

  horo::Context ctx_;
  std::string fault_;
  bool is_faulty_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    Job(argv[1], std::atoi(argv[2])).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "doctor_job: %s\n", error.what());
    return 1;
  }
}
