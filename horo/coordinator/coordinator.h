#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/context.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiator.h"
#include "horo/coordinator/response_cache.h"
#include "horo/coordinator/tensor_queue.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// The background thread that runs named operations. Its round has five steps: take what was
/// submitted from the queue, announce it to rank 0, negotiate (rank 0: note who has submitted what,
/// and answer with fused responses), execute the responses in their order, and complete the
/// handles. When nothing is pending it sleeps: no messages, no CPU time.
///
/// submit(), shut_down() and fail() may be called from any thread.
class Coordinator {
 public:
  /// Collective over the job. `transport` and `settings` outlive the coordinator. `allreduce`: see
  /// Communicator.
  Coordinator(collectives::Transport& transport, const Settings& settings,
              const collectives::AllreduceSelection& allreduce);
  /// Ends the thread; operations still pending are completed with ShutdownError.
  ~Coordinator();

  /// Hands over an operation. Throws InvalidArgument if its name is pending already.
  std::shared_ptr<Completion> submit(Entry entry);
  /// Waits until all ranks have shut down, then ends the thread. Throws CommunicationError.
  void shut_down();
  /// Tells the other ranks that this one cannot go on, and ends the thread without waiting for
  /// them.
  void fail(const std::string& text) noexcept;

  Counters counters() const;
  /// Adds the named operations to the snapshot; see observe::RankActivity.
  void add_to(observe::RankSnapshot& snapshot) { queue_.add_to(snapshot); }
  /// Whether someone else speaks of ranks that are missing. Any thread.
  void set_watched(bool is_watched) { is_watched_ = is_watched; }

 private:
  void run(const std::string& log_label);
  void announce();
  bool negotiate();
  void take_in(const RequestMessage& message, int source);
  void respond();
  void take_in(const ResponseMessage& message);
  void carry_out(const Response& response);
  std::vector<Entry> take_entries(const Response& response);
  void complete(std::vector<Entry>& entries, const std::exception_ptr& error);
  void check_deadlines();
  void answer_orphans();
  void warn_of_stalls(Negotiator::Time now);
  void send_to_all(const ResponseMessage& message);
  void rest(bool did_work);
  void spread_failure(const std::string& text) noexcept;
  void end_all(const std::exception_ptr& error);
  void send(int destination, std::span<const std::byte> bytes);

  bool is_aborted() const;
  std::chrono::nanoseconds age_of(Negotiator::Time since, Negotiator::Time now) const;
  bool is_leader() const { return topology_.rank == 0; }

  collectives::Transport& transport_;
  const Topology& topology_;
  const Settings& settings_;
  WaitPolicy policy_;
  std::unique_ptr<collectives::MessageChannel> channel_;
  collectives::Communicator communicator_;
  TensorQueue queue_;

  // Used by the thread only.
  std::unordered_map<std::string, Entry> pending_;
  ResponseCache cache_;
  Negotiator negotiator_;               // rank 0
  std::vector<Agreement> agreements_;   // rank 0: complete, not yet answered
  std::vector<std::uint64_t> seen_by_;  // rank 0: response messages each rank has taken in
  std::uint64_t responses_seen_ = 0;
  std::unordered_map<std::string, Negotiator::Time> warned_;
  Negotiator::Time next_check_{};
  std::chrono::steady_clock::time_point last_work_{};
  bool is_finished_ = false;

  std::atomic<bool> should_fail_{false};
  std::atomic<bool> should_stop_{false};
  std::atomic<bool> is_watched_{false};
  std::string failure_;  // written before should_fail_
  std::atomic<std::uint64_t> control_messages_{0}, control_bytes_{0};
  std::atomic<std::uint64_t> collectives_{0}, tensors_{0}, payload_bytes_{0};
  std::jthread thread_;
};

}  // namespace horo::coordinator
