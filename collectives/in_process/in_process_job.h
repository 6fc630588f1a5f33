#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/wait.h"

namespace horo::collectives {

class InProcessHub;

/// A job whose ranks are threads of this process. Messages are queued in memory. Tests and programs
/// that run without MPI use this class. The job is thread-safe. Only one thread at a time may call
/// the make_ functions of one transport, or use one object that a transport has made.
class InProcessJob {
 public:
  struct Options {
    WaitPolicy wait{};  ///< the job replaces `wait.abort` by its own signal
    /// The number of ranks per emulated node, or 0 if all ranks share one node.
    std::size_t ranks_per_node = 0;
    /// Fault injection: each message is delayed by a pseudo-random time of up to `max_delay`.
    /// `seed` initializes the pseudo-random numbers.
    std::chrono::microseconds max_delay{0};
    std::uint64_t seed = 1;
    /// Fault injection: the messages that this rank sends are not delivered.
    std::optional<int> drop_messages_of;
  };

  explicit InProcessJob(int ranks) : InProcessJob(ranks, Options{}) {}
  InProcessJob(int ranks, const Options& options);
  ~InProcessJob();

  /// Returns the transport of `rank`. The caller must call this function at most once for each
  /// rank. The transport may outlive the job object.
  std::unique_ptr<Transport> transport(int rank);

 private:
  std::shared_ptr<InProcessHub> hub_;
};

/// Runs function(transport, rank) on a thread for each rank of a new job, and waits for all. If a
/// rank throws, aborts the job with the text "another rank failed". Returns the exceptions by rank;
/// null for a rank that did not throw.
std::vector<std::exception_ptr> run_on_threads(
    int ranks, const InProcessJob::Options& options,
    const std::function<void(Transport&, int rank)>& function);

/// The message queues and the shared memory of a job or of a subset. Thread-safe.
class InProcessHub {
 public:
  /// Identifies a stream of messages. The messages of a stream are delivered in order. Streams are
  /// independent of each other.
  struct Address {
    int channel = 0;
    int source = 0;
    int destination = 0;
    int tag = 0;
    auto operator<=>(const Address&) const = default;
  };

  InProcessHub(int ranks, const InProcessJob::Options& options);
  /// Makes a hub for `members` of `parent`. The hub uses the abort signal of `parent`.
  InProcessHub(std::shared_ptr<InProcessHub> parent, const std::vector<int>& members);

  int ranks() const { return ranks_; }
  const WaitPolicy& wait_policy() const { return wait_; }
  std::size_t ranks_per_node() const { return options_.ranks_per_node; }
  AbortSignal& abort_signal() { return parent_ ? parent_->abort_signal() : abort_; }

  void send(const Address& address, std::span<const std::byte> bytes);
  /// Removes and returns the oldest message at `address`. Returns nullopt if there is no message or
  /// if the delay of the oldest message has not passed.
  std::optional<std::vector<std::byte>> receive(const Address& address);

  /// Returns the region with the number `index` of `node`. The first caller creates the region.
  std::shared_ptr<std::span<std::byte>> region(int node, int index, std::size_t bytes);
  /// Returns the hub of the subset with the number `index` of `parent`. Only ranks in `members`
  /// call this function, and the first caller creates the hub.
  static std::shared_ptr<InProcessHub> subset(const std::shared_ptr<InProcessHub>& parent,
                                              int index, const std::vector<int>& members);

 private:
  struct Held {
    std::chrono::steady_clock::time_point due;
    std::vector<std::byte> bytes;
  };

  const std::shared_ptr<InProcessHub> parent_;  // null for the hub of the whole job
  const int ranks_;
  const InProcessJob::Options options_;
  AbortSignal abort_;
  WaitPolicy wait_;
  std::mutex mutex_;  // guards the four members below
  std::map<Address, std::deque<Held>> queues_;
  std::map<std::pair<int, int>, std::weak_ptr<std::span<std::byte>>> regions_;
  std::map<int, std::weak_ptr<InProcessHub>> subsets_;
  std::uint64_t random_state_;
};

}  // namespace horo::collectives
