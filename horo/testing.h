#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo::testing {

/// Settings of run_ranks(), and the faults that it injects.
struct RunOptions {
  /// The settings of every rank, as "HORO_NAME=value" entries. The environment of the process is
  /// not used.
  std::vector<std::string> environment;
  /// Delays each message by a pseudo-random time, drawn from `seed`, of at most `max_delay` or
  /// $HORO_TEST_DELAY, whichever is longer.
  std::chrono::microseconds max_delay{0};
  std::uint64_t seed = 1;
  /// Drops all messages that this rank sends.
  std::optional<int> drop_messages_of;
};

/// Runs `function` on `ranks` threads of this process. Each thread is a rank with its own Context.
/// Messages are exchanged in memory, so neither MPI nor a launcher is needed. Use it to test
/// programs that use horo, also under sanitizers.
///
/// If `function` throws on a rank, that rank has failed, and the other ranks get
/// CommunicationError. Blocks until all ranks have ended. Then rethrows the exception of the rank
/// that failed first, prefixed with "rank N: ". Do not call it from several threads at the same
/// time.
void run_ranks(int ranks, const std::function<void(Context&)>& function,
               const RunOptions& options = {});

}  // namespace horo::testing
