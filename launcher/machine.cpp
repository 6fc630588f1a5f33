#include "launcher/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "launcher/program_search.h"

namespace horo {
namespace {

// The affinity mask does not reflect the quota of a container, because the quota limits the
// processor time instead of the set of processors.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
  std::string quota;
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::getline(file, quota);
  return cores_within_quota(quota, std::max(allowed, 1));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

/// Tries to read memory of this process with process_vm_readv(). If seccomp forbids this call for
/// other processes, it also forbids it for this process.
bool allows_cross_memory_copy() {
  char from = 1;
  char to = 0;
  const iovec local{&to, 1};
  const iovec remote{&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

}  // namespace

Machine inspect_machine() {
  std::vector<std::string> environment = process_environment();
  const std::string_view path = variable_in(environment, "PATH");
  return {.host_name = host_name(),
          .cores = usable_cores(),
          .is_root = geteuid() == 0,
          .has_remote_shell = find_on_path("ssh", path) || find_on_path("rsh", path),
          .allows_cross_memory_copy = allows_cross_memory_copy(),
          .environment = std::move(environment)};
}

void require_open_files(int ranks) {
  // On one host, mpirun of Open MPI 4.1 opened 28 files, and 4.5 per rank for pipes and
  // connections.
  const rlim_t needed = 30 + 5 * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw InvalidArgument(fmt::format(
        "this process may open {} files, but mpirun needs {} for {}; raise the limit "
        "(ulimit -n {})",
        limit.rlim_max, needed, format_count(static_cast<std::size_t>(ranks), "rank"), needed));
}

bool is_this_machine(const Machine& machine, std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == machine.host_name;
}

std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name) {
  for (std::string_view entry : environment)
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return entry.substr(name.size() + 1);
  return {};
}

// cpu.max holds "QUOTA PERIOD" in microseconds, or "max PERIOD" if there is no limit.
int cores_within_quota(std::string_view cpu_max, int cores) {
  std::istringstream text{std::string(cpu_max)};
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(quota / period)), 1, cores);
}

}  // namespace horo
