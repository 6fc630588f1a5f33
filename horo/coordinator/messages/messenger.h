#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/transport.h"
#include "horo/base/counters.h"
#include "horo/base/environment.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/messages/message_header.h"
#include "horo/coordinator/messages/message_table.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/watchdog/long_waits.h"

namespace horo::coordinator {

/// The copy between a tensor in device memory and the host memory from which its values are sent,
/// or to which they are received. Functions do not block. They may be called from any thread, one
/// at a time. The destructor waits for the device.
class MessageStaging {
 public:
  virtual ~MessageStaging() = default;
  /// Of a sender: whether the values have arrived in host memory.
  virtual bool is_filled() = 0;
  /// Of a receiver: whether the values have arrived in device memory. The first call, after the
  /// values have arrived in host memory, starts the copy.
  virtual bool is_emptied() = 0;
};

/// One call of send() or recv() of this rank.
struct MessageEntry {
  MessageHeader header;       ///< the messenger sets `tag`
  int peer = 0;               ///< the other rank, or this one
  std::byte* data = nullptr;  ///< host memory
  std::size_t bytes = 0;
  std::shared_ptr<MessageStaging> staging{};  ///< null if the tensor is in host memory
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  observe::OpenFlight flight;
};

/// Runs the messages between two ranks, Context::send() and recv(). Each of the two ranks sends the
/// header of its call to the other. With both headers, each rank knows on its own whether the calls
/// match. The coordinator and the other ranks take no part.
///
/// Rounds send and receive headers and advance transfers. The messenger's thread or a caller of
/// perform() runs them. While this rank has no open call, nothing runs: headers of peers wait in
/// the transport. From begin_closing() on, the thread answers such headers, so that no peer waits
/// for a call that this rank will not make.
///
/// Thread-safe, except that only one thread at a time may call begin_closing() and end().
class Messenger {
 public:
  /// The number of receives from one peer that may be open at the same time: the tags that every
  /// MPI has.
  static constexpr int kMostReceives = 32767;

  /// Collective over `transport`. All arguments must outlive the messenger. `long_waits` may be
  /// null.
  Messenger(collectives::Transport& transport, const Settings& settings,
            observe::FlightRecorder& recorder, observe::LongWaits* long_waits);
  /// Calls end() with a ShutdownError.
  ~Messenger();

  /// Submits a call and returns its completion. After end(), begin_closing() or a failure of the
  /// job, completes the call at once with ShutdownError or CommunicationError. Throws
  /// InvalidArgument if kMostReceives receives from the peer are open.
  std::shared_ptr<Completion> submit(MessageEntry entry);
  /// Submits a call, waits for it and throws its error. If no other thread owns the rounds, runs
  /// them on this thread meanwhile. Throws InvalidArgument in a completion callback.
  void perform(MessageEntry entry);

  /// Declares that this rank makes no further call. Its open calls may still complete. Calls of
  /// peers that no open call matches end there with ShutdownError. Does not block.
  void begin_closing();
  /// Completes all open calls with `error`, unless they have failed before, and ends the thread.
  /// When the calls complete, nothing accesses their tensors any more.
  void end(const std::exception_ptr& error);

  /// Adds the messages of this rank to `counters`.
  void count(Counters& counters) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Open {
    MessageEntry entry;
    collectives::PointToPoint::Ticket ticket = 0;  // in a transfer
    std::int32_t receiver_tag = 0;                 // of a sender
    bool is_matched = false;
  };
  // The tags of the open receives from one peer.
  struct Tags {
    std::int32_t next = 1;
    std::vector<std::int32_t> free;
  };
  struct DueCallback {
    std::string operation;
    Completion::Callback callback;
    std::exception_ptr error;
  };

  static bool is_inline(const MessageEntry& sender);
  void enqueue(MessageEntry entry);
  bool can_own() const { return !is_owned_ && should_end_ == nullptr && ended_with_ == nullptr; }
  void release_rounds();
  void run_thread(const std::string& log_label);
  void run_rounds(const Completion* until);
  bool run_round();
  void nap(bool did_work);
  bool take_submitted();
  void announce(MessageEntry entry);
  bool read_notices();
  void match(std::uint64_t number, const MessageTable::Remote& remote);
  bool advance_copies();
  bool advance_transfers();
  void finish_receive(std::uint64_t number);
  void refuse_waiting_peers();
  void fail_calls_to(int peer);
  void check_deadlines(Time now);
  void complete(std::uint64_t number, const std::exception_ptr& error);
  void finish_call(MessageEntry& entry, const std::exception_ptr& error);
  void run_callbacks();
  void give_up(const std::string& reason) noexcept;
  void end_all(const std::exception_ptr& error);
  MessageRoute route_of(const MessageEntry& entry) const;
  observe::OpenFlight open_flight(const MessageEntry& entry);

  collectives::Transport& transport_;
  const Topology& topology_;
  const Settings& settings_;
  observe::FlightRecorder& recorder_;
  observe::LongWaits* const long_waits_;
  WaitPolicy policy_;
  std::unique_ptr<collectives::MessageChannel> notices_;

  // Used only by the owner of the rounds.
  std::unique_ptr<collectives::PointToPoint> peers_;  // null after end_all()
  MessageTable table_;
  std::map<std::uint64_t, Open> open_;  // by number, in the order of submission
  std::vector<std::uint64_t> transfers_;
  // Matched senders that wait for their values, and receivers whose values leave the staging
  // memory.
  std::vector<std::uint64_t> filling_, emptying_;
  std::map<int, Tags> tags_;
  std::set<int> shut_down_peers_, refused_peers_;
  std::uint64_t last_number_ = 0;
  Time next_check_{}, last_work_{};

  mutable std::mutex mutex_;         // guards the members below
  std::condition_variable changed_;  // of these members
  std::deque<MessageEntry> submitted_;
  std::vector<DueCallback> due_callbacks_;
  std::map<int, int> receives_from_;  // open receives by peer
  bool is_owned_ = false;             // whether a thread runs rounds
  bool has_open_ = false;             // whether open_ was not empty at the last release
  bool is_closing_ = false;
  std::exception_ptr should_end_;  // the argument of end()
  std::exception_ptr ended_with_;  // set by end_all()
  std::jthread thread_;            // started by the first call

  std::atomic<std::uint64_t> sent_{0}, received_{0}, bytes_{0};
};

}  // namespace horo::coordinator
