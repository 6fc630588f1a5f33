#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/transport.h"
#include "horo/base/counters.h"
#include "horo/base/environment.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/negotiator.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/coordinator/operation_flights.h"
#include "horo/coordinator/round_ownership.h"
#include "horo/coordinator/tensor_queue.h"

namespace horo::coordinator {

/// Runs named operations in rounds. A round takes the submitted entries from the queue, exchanges
/// control messages with other ranks, executes the responses that have arrived, in their order, and
/// sets the completions of the executed entries. The coordinator's thread or a caller of perform()
/// runs the rounds; see RoundOwnership. While no operation is pending on any rank, the ranks send
/// no control messages, and the coordinator's thread sleeps between checks of the abort signal.
///
/// Thread-safe, except that only one thread at a time may call shut_down() or fail().
class Coordinator {
 public:
  static constexpr std::chrono::milliseconds kIdleInterval{250};

  /// Collective over `transport`. `transport`, `settings`, `recorder` and `long_waits` must outlive
  /// the coordinator. For `allreduce`, see Communicator. For `long_waits`, see StallWatch. While no
  /// operation is pending on this rank, the coordinator's thread checks the abort signal once per
  /// `idle_interval`. submit() wakes the thread at once.
  Coordinator(collectives::Transport& transport, const Settings& settings,
              const collectives::AllreduceSelection& allreduce, observe::FlightRecorder& recorder,
              std::chrono::nanoseconds idle_interval = kIdleInterval,
              observe::LongWaits* long_waits = nullptr);
  /// Ends operations that are still pending, so that they complete with ShutdownError. Joins the
  /// thread. If the thread is in a round, first waits for the end of that round, which may wait for
  /// other ranks.
  ~Coordinator();

  /// Submits an operation and returns its completion. Throws InvalidArgument as
  /// TensorQueue::submit() does. If the coordinator has ended, completes the operation at once with
  /// ShutdownError or CommunicationError.
  std::shared_ptr<Completion> submit(Entry entry);
  /// Submits an operation, waits until the operation has completed, and throws the error of the
  /// operation if there is one. If no other thread owns the rounds, runs rounds on this thread
  /// meanwhile. The operation then needs no thread switch. Throws InvalidArgument as
  /// TensorQueue::submit() does, and in a completion callback.
  void perform(Entry entry);
  /// Submits the shutdown of this rank and waits until all ranks have submitted theirs. Operations
  /// that are still pending on this rank then complete with ShutdownError. Also waits for the end
  /// of the thread. Throws CommunicationError if the job fails first. The caller must call
  /// shut_down() at most once.
  void shut_down();
  /// Called when this rank has failed. Aborts the job with `text`, unless the coordinator has
  /// already ended, and joins the thread. If a round is running, first waits for the end of that
  /// round, which may wait for other ranks.
  void fail(const std::string& text) noexcept;

  Counters counters() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// How the owner of the rounds sleeps before its next round. If `duration` is 0, the owner does
  /// not sleep.
  struct Pause {
    Doorbell::Sleep sleep = Doorbell::Sleep::kNone;
    std::chrono::nanoseconds duration{0};
  };

  void run_thread(const std::string& log_label);
  Pause run_rounds(const Completion* until);
  bool run_round();
  bool announce(Time now);
  void carry_out(const Response& response);
  void enqueue_on_device(const Response& response, std::vector<Entry> entries);
  std::vector<Entry> take_entries(const Response& response);
  void note_agreed(const Response& response, const std::vector<Entry>& entries);
  void complete(std::vector<Entry>& entries, const std::exception_ptr& error);
  bool run_callbacks();
  void check_deadlines(Time now);
  Pause pause_after(bool did_work);
  void give_up(const std::string& reason) noexcept;
  void end_all(const std::exception_ptr& error);

  Doorbell& doorbell() { return negotiator_.network().doorbell(); }

  collectives::Transport& transport_;
  const Topology& topology_;
  const std::chrono::nanoseconds idle_interval_;
  WaitPolicy policy_;
  Negotiator negotiator_;
  collectives::Communicator communicator_;
  OperationFlights flights_;
  TensorQueue queue_;
  RoundOwnership round_ownership_;

  // Used only by the thread that owns the rounds.
  std::unordered_map<std::string, Entry> pending_;
  Time next_check_{};
  Time no_deadline_before_{};  // check_deadlines() skips the pending entries before this time
  Time last_work_{};
  bool is_finished_ = false;

  std::mutex callbacks_mutex_;  // guards due_callbacks_
  struct DueCallback {
    std::string operation;
    Completion::Callback callback;
    std::exception_ptr error;
  };
  std::vector<DueCallback> due_callbacks_;
  std::atomic<bool> should_fail_{false};
  std::atomic<bool> should_stop_{false};
  std::string failure_;  // written before should_fail_ is set, read after
  std::atomic<std::uint64_t> operations_{0}, collectives_{0}, tensors_{0}, payload_bytes_{0};
  std::jthread thread_;
};

}  // namespace horo::coordinator
