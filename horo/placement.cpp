#include "horo/placement.h"

#include <sched.h>

#include "horo/base/hash.h"
#include "horo/base/log.h"
#include "horo/coordinator/plan_agreement.h"

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

}  // namespace

std::vector<int> share_of(const std::vector<int>& processors, int local_rank, int local_size) {
  const auto share = static_cast<std::ptrdiff_t>(processors.size()) / local_size;
  const auto begin = processors.begin() + share * local_rank;
  return {begin, begin + share};
}

void keep_to_own_processors(collectives::Collectives& collectives, const Topology& topology) {
  const std::vector<int> allowed = allowed_processors();
  const auto signature = Hash().add_bytes(allowed.data(), allowed.size() * sizeof(int)).value();
  if (!coordinator::all_equal(signature, collectives)) return;
  const std::vector<int> own = share_of(allowed, topology.local_rank, topology.local_size);
  if (own.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int processor : own) CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    log_info("could not bind this rank to its processors");
}

}  // namespace horo
