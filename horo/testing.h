#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo::testing {

/// Faults and settings of run_ranks().
struct RunOptions {
  /// "HORO_NAME=value" entries for every rank.
  std::vector<std::string> environment;
  /// Messages are late by up to this, drawn from `seed`, or up to $HORO_TEST_DELAY if longer.
  std::chrono::microseconds max_delay{0};
  std::uint64_t seed = 1;
  /// Messages this rank sends are lost, from the start.
  std::optional<int> drop_messages_of;
};

/// Runs `function` on `ranks` threads of this process, each with a Context of its own, over an
/// in-process transport: no MPI, no launcher. For tests of programs that use horo, under sanitizers
/// and where mpirun is not at hand. A rank that leaves `function` by an exception counts as died:
/// the others get CommunicationError from what they wait for. Blocks until all ranks have ended,
/// then rethrows the first rank's exception, prefixed with "rank N: ". Not for concurrent use.
void run_ranks(int ranks, const std::function<void(Context&)>& function,
               const RunOptions& options = {});

}  // namespace horo::testing
