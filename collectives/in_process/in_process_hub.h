#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/in_process/in_process_job.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// Queues of messages between threads, and the memory that they share. Thread-safe.
class InProcessHub {
 public:
  /// A stream of messages: ordered within, independent of all others.
  struct Address {
    int channel = 0;
    int source = 0;
    int destination = 0;
    int tag = 0;
    auto operator<=>(const Address&) const = default;
  };

  InProcessHub(int ranks, const InProcessJob::Options& options);
  /// For `members` of `parent`, whose abort signal it shares.
  InProcessHub(std::shared_ptr<InProcessHub> parent, const std::vector<int>& members);

  int ranks() const { return ranks_; }
  const WaitPolicy& wait_policy() const { return wait_; }
  std::size_t ranks_per_node() const { return options_.ranks_per_node; }
  AbortSignal& abort_signal() { return parent_ ? parent_->abort_signal() : abort_; }

  void send(const Address& address, std::span<const std::byte> bytes);
  /// The oldest message at `address` that is due.
  std::optional<std::vector<std::byte>> receive(const Address& address);

  /// The `index`-th region of `node`, made by the first rank that asks.
  std::shared_ptr<std::span<std::byte>> region(int node, int index, std::size_t bytes);
  /// The hub of the `index`-th subset, made by the first of `members` that asks.
  static std::shared_ptr<InProcessHub> subset(const std::shared_ptr<InProcessHub>& parent,
                                              int index, const std::vector<int>& members);

 private:
  struct Held {
    std::chrono::steady_clock::time_point due;
    std::vector<std::byte> bytes;
  };

  const std::shared_ptr<InProcessHub> parent_;  // null: the job's
  const int ranks_;
  const InProcessJob::Options options_;
  AbortSignal abort_;
  WaitPolicy wait_;
  std::mutex mutex_;  // guards the four below
  std::map<Address, std::deque<Held>> queues_;
  std::map<std::pair<int, int>, std::weak_ptr<std::span<std::byte>>> regions_;
  std::map<int, std::weak_ptr<InProcessHub>> subsets_;
  std::uint64_t random_state_;
};

}  // namespace horo::collectives
