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

/// Runs named operations in rounds. A round takes the submitted entries from the queue, negotiates
/// them with the other ranks, executes the responses in the order of the message, and sets the
/// completions. The coordinator's thread runs the rounds. If no other thread is running rounds, a
/// caller of perform() runs them. This saves two thread switches per operation. While no operation
/// is pending on any rank, the coordinator sends no messages and its thread sleeps.
///
/// Thread-safe.
class Coordinator {
 public:
  static constexpr std::chrono::milliseconds kIdleInterval{250};

  /// Collective over `transport`. `transport`, `settings`, `recorder` and `long_waits` must outlive
  /// the coordinator. For `allreduce`, see Communicator. For `long_waits`, see StallWatch. While no
  /// operation is pending, the thread checks the abort signal once per `idle_interval`. A
  /// submission wakes the thread at once.
  Coordinator(collectives::Transport& transport, const Settings& settings,
              const collectives::AllreduceSelection& allreduce, observe::FlightRecorder& recorder,
              std::chrono::nanoseconds idle_interval = kIdleInterval,
              observe::LongWaits* long_waits = nullptr);
  /// Ends the thread. Completes operations that are still pending with ShutdownError.
  ~Coordinator();

  /// Submits an operation and returns its completion. Throws InvalidArgument if an operation of the
  /// same name is pending on this rank, or if a join is pending. After the coordinator has ended,
  /// the completion has the error.
  std::shared_ptr<Completion> submit(Entry entry);
  /// Submits an operation, waits for the operation, and throws the error of the operation if there
  /// is one.
  void perform(Entry entry);
  /// Submits the shutdown of this rank and waits until all ranks have submitted theirs. Then waits
  /// for the end of the thread. Throws CommunicationError if a rank fails first.
  void shut_down();
  /// Aborts the job with `text`, because this rank has failed, and ends the thread. Waits for the
  /// other ranks only in a round that has already begun.
  void fail(const std::string& text) noexcept;

  Counters counters() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// How to sleep before the next round. If `duration` is 0, the next round follows at once.
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
  Time no_deadline_before_{};  // no pending entry times out before this time
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
