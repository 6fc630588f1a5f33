#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectives/transport.h"

namespace horo::collectives {

class InProcessHub;

/// A job whose ranks are threads of this process: every message goes through queues in memory. Made
/// for tests and for programs without MPI. The job and its transports may be used from any thread;
/// each object that a transport makes from one thread at a time.
class InProcessJob {
 public:
  struct Options {
    WaitPolicy wait{};  ///< `abort` is replaced by the job's own signal
    /// Ranks per pretended node; 0: all ranks share one node.
    std::size_t ranks_per_node = 0;
    /// Faults: each message is held back by a pseudo-random time up to `max_delay`, drawn from
    /// `seed`.
    std::chrono::microseconds max_delay{0};
    std::uint64_t seed = 1;
    /// Messages that this rank sends are lost.
    std::optional<int> drop_messages_of;
  };

  explicit InProcessJob(int ranks) : InProcessJob(ranks, Options{}) {}
  InProcessJob(int ranks, const Options& options);
  ~InProcessJob();

  /// The transport of one rank. It keeps what it needs of the job alive.
  std::unique_ptr<Transport> transport(int rank);

 private:
  std::shared_ptr<InProcessHub> hub_;
};

}  // namespace horo::collectives
