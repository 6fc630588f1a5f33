#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "horo/context.h"

/// Ranks as threads, for tests.
namespace horo::testing {

/// Settings of run_ranks(), and the faults that it injects.
struct RunOptions {
  /// The settings of every rank, as "HORO_NAME=value" entries. Of the HORO_ variables of the
  /// process, only HORO_TEST_DELAY is read.
  std::vector<std::string> environment;
  /// The longest delay of a message. Each message is delayed by a pseudo-random time, which depends
  /// on `seed`. If the environment variable HORO_TEST_DELAY is longer, it replaces `max_delay`.
  std::chrono::microseconds max_delay{0};
  std::uint64_t seed = 1;  ///< of the delays
  /// If set, all messages that this rank sends are dropped. Data in shared memory is not affected.
  std::optional<int> drop_messages_of;
};

/// Runs `function` on `ranks` threads of this process. Each thread is a rank with its own Context.
/// Messages are exchanged in memory, so neither MPI nor a launcher is needed. Use it to test
/// programs that use horo, also under sanitizers.
///
/// If `function` throws on a rank, that rank has failed, and pending and later operations of the
/// other ranks throw CommunicationError. Blocks until all ranks have ended. If a rank has failed,
/// then throws the error of the rank that failed first, with "rank N: " before its text.
/// InvalidArgument, MismatchError, CommunicationError and ShutdownError keep their class.
/// SharedMemoryError becomes CommunicationError. Any other std::exception becomes an Error. Do not
/// call run_ranks() from several threads at the same time.
void run_ranks(int ranks, const std::function<void(Context&)>& function,
               const RunOptions& options = {});

}  // namespace horo::testing
