#include "horo/runtime/core_binding.h"

#include <dlfcn.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "collectives/agreement.h"
#include "horo/base/hash.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo {
namespace {

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) allowed.push_back(processor);
  return allowed;
}

/// The OpenMP library of this process, if it has one. horo does not link to it.
class OpenMp {
 public:
  bool is_loaded() const { return get_max_threads_ != nullptr && set_num_threads_ != nullptr; }
  std::size_t threads() const { return static_cast<std::size_t>(get_max_threads_()); }
  /// Applies to parallel regions that the calling thread begins.
  void set_threads(std::size_t threads) const { set_num_threads_(static_cast<int>(threads)); }

 private:
  template <typename Function>
  static Function* find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
  int (*get_max_threads_)() = find<int()>("omp_get_max_threads");
  void (*set_num_threads_)(int) = find<void(int)>("omp_set_num_threads");
};

// Returns whether the rank may be bound. Sets the number of OpenMP threads if necessary, because
// OpenMP may have counted the processors when the process was loaded. Only rank 0 warns.
bool adapt_openmp(std::size_t processors, std::size_t share, bool is_reporter) {
  const OpenMp openmp;
  if (!openmp.is_loaded()) return true;
  const std::size_t threads = openmp.threads();
  switch (plan_openmp(threads, getenv("OMP_NUM_THREADS") != nullptr, processors, share)) {
    case OpenMpPlan::kLeave:
      return true;
    case OpenMpPlan::kSetThreads:
      openmp.set_threads(share);
      log_info("OpenMP uses {} threads instead of {}: this rank's share of the processors", share,
               threads);
      return true;
    case OpenMpPlan::kDoNotBind:
      if (is_reporter)
        log_warning(
            "this rank is not bound to its share of the cores ({}): OpenMP is set to {}; set "
            "OMP_NUM_THREADS={} or HORO_BIND=none",
            share, format_count(threads, "thread"), share);
      return false;
  }
  return true;
}

}  // namespace

// More threads than processors would slow the program down, so either OpenMP adapts or the rank is
// not bound. A number that the user has set, or that differs from OpenMP's default, is not changed.
OpenMpPlan plan_openmp(std::size_t threads, bool is_set_by_user, std::size_t processors,
                       std::size_t share) {
  if (threads <= share) return OpenMpPlan::kLeave;
  return is_set_by_user || threads != processors ? OpenMpPlan::kDoNotBind : OpenMpPlan::kSetThreads;
}

std::vector<int> share_of(const std::vector<int>& processors, int local_rank, int local_size) {
  const auto share = static_cast<std::ptrdiff_t>(processors.size()) / local_size;
  const auto begin = processors.begin() + share * local_rank;
  return {begin, begin + share};
}

// Threads that this thread creates later inherit the mask. Existing threads keep their masks. The
// comparison has the same result on all ranks. After the comparison, each rank decides alone.
void bind_to_own_cores(collectives::Collectives& collectives, const Topology& topology) {
  const std::vector<int> allowed = allowed_processors();
  const auto signature = Hash().add_bytes(allowed.data(), allowed.size() * sizeof(int)).value();
  if (!collectives::all_equal(signature, collectives)) return;
  const std::vector<int> own = share_of(allowed, topology.local_rank, topology.local_size);
  if (own.empty() || !adapt_openmp(allowed.size(), own.size(), topology.rank == 0)) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int processor : own) CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    log_info("could not bind this rank to its processors: {}", std::strerror(errno));
}

}  // namespace horo
