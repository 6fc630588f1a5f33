// A short training run in which some ranks fail at one place, for scripts/chaos.py:
//   chaos_job FAULT PLACE VICTIMS LAG_MS DELAY_MS STEPS NOTES
// FAULT: "none" or one of kFaults.
// PLACE: a place in the program; see run().
// VICTIMS: the failing ranks, such as "1,3".
// LAG_MS, DELAY_MS: if PLACE is inside a collective call, the other ranks enter the call LAG_MS
// later. A second thread of the victim injects the fault DELAY_MS after the victim has entered the
// call. The main thread joins that thread after the call, so "loop" makes the rank late. With
// "stuck" the main thread stays inside the call.
// STEPS: the number of training steps.
// NOTES: a file to which each rank appends "start RANK PID NS" and a victim appends "fault RANK
// WHERE NS". WHERE is "at", "inside" or, if the call ended first, "after". NS is CLOCK_MONOTONIC.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory_resource>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "horo/horo.h"

namespace {

using std::chrono::milliseconds;

[[noreturn]] void loop() {
  for (;;) usleep(1000);  // makes no progress and leaves the core to other jobs
}

void write_to_null() {
  int* volatile null = nullptr;
  *static_cast<volatile int*>(null) = 1;
}

int own_rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}

std::string now_text() {
  return std::to_string(std::chrono::steady_clock::now().time_since_epoch() /
                        std::chrono::nanoseconds(1));
}

[[noreturn]] void fail_with_exception() {
  throw std::runtime_error("injected failure of rank " + std::to_string(own_rank()));
}

const std::map<std::string, void (*)()> kFaults = {
    {"kill", [] { raise(SIGKILL); }},
    {"stop", [] { kill(getpid(), SIGSTOP); }},
    {"segv", write_to_null},
    {"abort", [] { std::abort(); }},
    {"terminate", [] { std::terminate(); }},
    {"exit", [] { std::exit(0); }},
    {"_exit", [] { _exit(3); }},
    {"_exit0", [] { _exit(0); }},
    {"throw", [] { fail_with_exception(); }},
    {"loop", [] { loop(); }},
    {"stuck", [] { loop(); }},
};

/// Injects the fault at its place. The main thread calls it, except at("in_callback").
class Injector {
 public:
  Injector(std::string fault, std::string place, const std::string& victims, milliseconds lag,
           milliseconds delay, const char* notes)
      : fault_(std::move(fault)),
        place_(std::move(place)),
        lag_(lag),
        delay_(delay),
        notes_(open(notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)),
        main_thread_(pthread_self()) {
    std::istringstream words(victims);
    for (std::string word; std::getline(words, word, ',');)
      is_victim_ |= std::atoi(word.c_str()) == own_rank();
    // The handler does not return, so the main thread stays in the call.
    std::signal(SIGUSR1, [](int) { loop(); });
    note("start " + std::to_string(own_rank()) + " " + std::to_string(getpid()) + " " + now_text());
  }

  void at(const std::string& place) {
    if (is_victim_ && place == place_) fire("at", kFaults.at(fault_));
  }

  /// Delays the ranks that are not victims, so that they enter the call at this place later.
  void lag(const std::string& place) const {
    if (!is_victim_ && place == place_) std::this_thread::sleep_for(lag_);
  }

  /// Runs `call` and injects the fault of this place inside it.
  template <typename Call>
  auto inside(const std::string& place, Call call) {
    if (place != place_ || !is_victim_) return call();
    is_inside_ = true;
    std::thread injection([this] { inject_from_this_thread(); });
    struct Leave {
      Injector& injector;
      std::thread& injection;
      ~Leave() {  // the fault is injected here at the latest
        injector.is_inside_ = false;
        injection.join();
      }
    } leave{*this, injection};
    return call();
  }

 private:
  void inject_from_this_thread() {
    std::this_thread::sleep_for(delay_);
    const char* where = is_inside_ ? "inside" : "after";
    if (fault_ == "stuck") pthread_kill(main_thread_, SIGUSR1);
    fire(where, kFaults.at(fault_));
  }

  void fire(const char* where, void (*fault)()) {
    note_fault(where);
    fault();
  }

  void note_fault(const char* where) const {
    note("fault " + std::to_string(own_rank()) + " " + where + " " + now_text());
  }

  void note(const std::string& text) const {
    const std::string line = text + "\n";
    if (write(notes_, line.data(), line.size()) < 0) std::perror("chaos_job: notes");
  }

  std::string fault_, place_;
  milliseconds lag_, delay_;
  int notes_;
  pthread_t main_thread_;
  bool is_victim_ = false;
  std::atomic<bool> is_inside_{false};
};

constexpr std::size_t kGradients = 6;
constexpr std::size_t kElements = 20000;

void train(horo::Context& ctx, horo::GradientSync& sync, horo::ProcessSet& set, int steps,
           Injector& injector) {
  const int failing_step = steps / 2;
  std::vector<float> loss(3, 1.0F);
  for (int step = 0; step < steps; ++step) {
    const bool fails = step == failing_step;
    {
      const horo::TraceScope phase = ctx.phase("data");
      std::this_thread::sleep_for(milliseconds(5));
      if (fails) injector.at("before_ready");
      if (fails) injector.lag("in_wait");
    }
    for (std::size_t i = kGradients; i-- > 0;) sync.ready(i);
    if (fails) injector.at("after_ready");
    if (fails)
      injector.inside("in_wait", [&] { sync.wait(); });
    else
      sync.wait();
    const horo::Handle handle = ctx.allreduce_async(horo::TensorView(loss), {.name = "loss"});
    handle.then([&injector, fails](std::exception_ptr) {
      if (fails) injector.at("in_callback");
    });
    handle.wait();
    if (set.includes_me()) set.barrier();
  }
}

void run(int steps, Injector& injector) {
  injector.at("before_init");
  injector.lag("in_init");
  horo::Context ctx = injector.inside("in_init", [] { return horo::init(); });
  injector.at("after_init");
  injector.lag("in_allocate");
  const horo::Arena arena =
      injector.inside("in_allocate", [&] { return ctx.allocate(std::size_t{8} << 20); });
  std::vector<std::pmr::vector<float>> tensors;
  for (std::size_t t = 0; t < kGradients; ++t)
    tensors.emplace_back(kElements, static_cast<float>(ctx.rank()),
                         t % 2 == 0 ? arena.resource() : std::pmr::get_default_resource());
  std::vector<horo::NamedTensor> gradients;
  for (auto& tensor : tensors)
    gradients.push_back({"g" + std::to_string(gradients.size()), horo::TensorView(tensor)});
  injector.lag("in_registration");
  horo::GradientSync sync = injector.inside("in_registration", [&] {
    return horo::GradientSync(ctx, gradients, {.bucket_bytes = 100000});
  });
  std::vector<int> members;
  for (int rank = 0; rank < ctx.size(); rank += 2) members.push_back(rank);
  injector.lag("in_set");
  horo::ProcessSet set = injector.inside("in_set", [&] { return ctx.new_process_set(members); });
  train(ctx, sync, set, steps, injector);
  injector.lag("in_join");
  injector.inside("in_join", [&] { ctx.join(); });
  injector.at("before_shutdown");
  injector.lag("in_shutdown");
  injector.inside("in_shutdown", [&] { ctx.shutdown(); });
  injector.at("after_shutdown");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  const std::string fault = argv[1];
  if (fault != "none" && !kFaults.contains(fault)) return 2;
  Injector injector(fault, argv[2], argv[3], milliseconds(std::atoi(argv[4])),
                    milliseconds(std::atoi(argv[5])), argv[7]);
  try {
    run(std::atoi(argv[6]), injector);
    injector.at("end_of_main");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos_job: rank %d: %s\n", own_rank(), error.what());
    return 1;
  }
}
