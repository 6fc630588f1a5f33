#include "ops/train/bottleneck/process_meter.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

namespace horo::ops {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The second value is the time in which the thread was ready to run and had no core, in ns.
double waiting_seconds_of(int thread_id) {
  std::ifstream file(fmt::format("/proc/self/task/{}/schedstat", thread_id));
  double running = 0, waiting = 0;
  file >> running >> waiting;
  return file ? waiting / 1e9 : 0;
}

// Processes of low priority give their core to others, so their time counts as idle.
double idle_seconds_of_machine() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting_for_disk = 0;
  file >> name >> user >> nice >> system >> idle >> waiting_for_disk;
  if (!file || name != "cpu") return 0;
  return (nice + idle + waiting_for_disk) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The quota of a control group, in cores; 0: none.
double quota_of(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  file >> quota >> period;
  return file && period > 0 ? quota / period : 0;
}

std::filesystem::path own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(4);
  return {};
}

}  // namespace

double usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = sched_getaffinity(0, sizeof set, &set) == 0
                     ? CPU_COUNT(&set)
                     : static_cast<double>(std::thread::hardware_concurrency());
  const std::filesystem::path root = "/sys/fs/cgroup";
  for (std::filesystem::path group = own_group();; group = group.parent_path()) {
    if (const double quota = quota_of(root / group); quota > 0) cores = std::min(cores, quota);
    if (group.empty()) break;
  }
  return cores;
}

double measure_memory_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes, std::byte{2});
  double fastest = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    from[static_cast<std::size_t>(round)] = to.back();
    fastest = std::max(fastest, 2 * static_cast<double>(kBytes) / time.count());
  }
  return fastest;
}

ProcessMeter::ProcessMeter()
    : thread_id_(gettid()),
      begin_(read()),
      ticker_([this](const std::stop_token& stop) { count_pauses(stop); }) {}

ProcessMeter::Reading ProcessMeter::read() const {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.time = Clock::now(),
          .cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
          .waiting_seconds = waiting_seconds_of(thread_id_),
          .idle_seconds = idle_seconds_of_machine(),
          .major_faults = static_cast<std::uint64_t>(usage.ru_majflt),
          .involuntary_switches = static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

void ProcessMeter::count_pauses(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const auto start = Clock::now();
    never.wait_for(lock, stop, kTick, [] { return false; });
    const auto late = Clock::now() - start - kTick;
    if (late > kTolerance) suspended_ns_ += std::chrono::nanoseconds(late).count();
  }
}

ProcessCosts ProcessMeter::costs() const {
  const Reading now = read();
  const double seconds = std::chrono::duration<double>(now.time - begin_.time).count();
  return {.seconds = seconds,
          .cpu_seconds = now.cpu_seconds - begin_.cpu_seconds,
          .waiting_seconds = now.waiting_seconds - begin_.waiting_seconds,
          .suspended_seconds = static_cast<double>(suspended_ns_) / 1e9,
          .cores = usable_cores(),
          .idle_cores =
              seconds > 0 ? std::max(0.0, now.idle_seconds - begin_.idle_seconds) / seconds : 0,
          .major_faults = now.major_faults - begin_.major_faults,
          .involuntary_switches = now.involuntary_switches - begin_.involuntary_switches};
}

}  // namespace horo::ops
