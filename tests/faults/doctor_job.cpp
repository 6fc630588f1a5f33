// A job in which one rank misbehaves, for doctor_test.py:
//   doctor_job FAULT RANK
// FAULT is one of:
//   none
//   kill, kill_named, crash, throw, return: the rank ends in the middle of a step
//   stop: the rank's process is stopped by SIGSTOP
//   absent: the rank never submits the operation that the others submit
//   unmarked: the rank never marks a gradient as ready
//   alone: the rank submits an operation that no other rank submits
//   pause: the rank declares a pause while the others wait
//   slow: the rank spends a long time loading data
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "horo/horo.h"

namespace {

void sleep_forever() {
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
      const horo::TraceScope phase = ctx_.phase("step");
      if (fault_ == "slow" && is_faulty_) {
        const horo::TraceScope data = ctx_.phase("data");
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
  // Returns false if the rank must leave the job.
  bool in_gradients() {
    if (fault_ == "kill") raise(SIGKILL);
    if (fault_ == "crash") raise(SIGSEGV);
    if (fault_ == "throw") throw std::runtime_error("diverged");
    if (fault_ == "stop") raise(SIGSTOP);
    if (fault_ == "unmarked") {
      const horo::TraceScope phase = ctx_.phase("backward");
      sleep_forever();
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
      const horo::TraceScope phase = ctx_.phase("data");
      sleep_forever();
    }
    if (fault_ == "pause") {
      const horo::TraceScope pause = ctx_.pause("checkpoint");
      sleep_forever();
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
