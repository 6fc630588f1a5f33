#pragma once

#include <functional>

#include "collectives/nccl/nccl_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {

/// Runs function(NCCL's collectives) on `ranks` threads.
inline void run_nccl_ranks(int ranks, const std::function<void(NcclCollectives&)>& function) {
  run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives control(*peers, 4096);
    NcclCollectives nccl(control, rank, ranks, "test", transport.wait_policy());
    function(nccl);
  });
}

}  // namespace horo::collectives::contract
