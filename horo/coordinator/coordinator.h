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
#include "horo/base/environment.h"
#include "horo/context.h"
#include "horo/coordinator/charge.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation.h"
#include "horo/coordinator/operation_flights.h"
#include "horo/coordinator/tensor_queue.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// What runs named operations. Its round: take what was submitted from the queue, negotiate it with
/// the other ranks, execute the answers in their order, and complete the handles. Rounds are run by
/// a thread of its own or, while it sleeps, by a caller who has nothing to do but to wait: then a
/// blocking operation changes no thread. When nothing is pending there are no messages and no CPU
/// time.
///
/// All public functions may be called from any thread.
class Coordinator {
 public:
  /// Collective over the job. `transport`, `settings` and `recorder` outlive the coordinator.
  /// `allreduce`: see Communicator.
  Coordinator(collectives::Transport& transport, const Settings& settings,
              const collectives::AllreduceSelection& allreduce, observe::FlightRecorder& recorder);
  /// Ends the thread; operations still pending are completed with ShutdownError.
  ~Coordinator();

  /// Hands over an operation. Throws InvalidArgument if its name is pending already.
  std::shared_ptr<Completion> submit(Entry entry);
  /// Hands over an operation and waits for it; throws what it ends with.
  void perform(Entry entry);
  /// Waits until all ranks have shut down, then ends the thread. Throws CommunicationError.
  void shut_down();
  /// Tells the other ranks that this one cannot go on, and ends the thread without waiting for
  /// them.
  void fail(const std::string& text) noexcept;

  Counters counters() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// What to do until the next round; 0: nothing.
  struct Pause {
    Doorbell::Sleep sleep = Doorbell::Sleep::kNone;
    std::chrono::nanoseconds duration{0};
  };

  void run_thread(const std::string& log_label);
  Pause run_rounds(const Completion* until);
  bool run_round();
  bool announce(Time now);
  void carry_out(const Response& response);
  void hand_to_device(const Response& response, std::vector<Entry> entries);
  std::vector<Entry> take_entries(const Response& response);
  void note_agreed(const Response& response, const std::vector<Entry>& entries);
  void complete(std::vector<Entry>& entries, const std::exception_ptr& error);
  bool run_callbacks();
  void check_deadlines(Time now);
  Pause pause_after(bool did_work);
  void give_up(const std::string& reason) noexcept;
  void end_all(const std::exception_ptr& error);

  Doorbell& doorbell() { return negotiation_.network().doorbell(); }

  collectives::Transport& transport_;
  const Topology& topology_;
  const Settings& settings_;
  WaitPolicy policy_;
  Negotiation negotiation_;
  collectives::Communicator communicator_;
  OperationFlights flights_;
  TensorQueue queue_;
  Charge charge_;

  // Used by whoever is in charge.
  std::unordered_map<std::string, Entry> pending_;
  Time next_check_{};
  Time no_deadline_before_{};  // of what is pending
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
  std::string failure_;  // written before should_fail_
  std::atomic<std::uint64_t> operations_{0}, collectives_{0}, tensors_{0}, payload_bytes_{0};
  std::jthread thread_;
};

}  // namespace horo::coordinator
