#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/coordinator/negotiation/control_network.h"
#include "horo/coordinator/negotiation/readiness_table.h"
#include "horo/coordinator/negotiation/response_cache.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {

/// Negotiates the next operations with the other ranks. Messages are sent along the control tree;
/// see ControlTree. Once all ranks of a rank's subtree have submitted an operation or joined, the
/// rank sends one contribution to its parent. The root creates the responses and sends them to its
/// children. Every other rank passes them to its own children. Unless the job fails, all ranks
/// receive the same responses in the same order. Used by one thread at a time. ControlNetwork
/// states which functions of network() are thread-safe.
class Negotiator {
 public:
  using Time = ReadinessTable::Time;

  /// Collective over `transport`. The arguments must outlive this object. `long_waits` may be null;
  /// see StallWatch.
  Negotiator(collectives::Transport& transport, const Settings& settings,
             observe::LongWaits* long_waits = nullptr);

  ControlNetwork& network() { return network_; }
  const ControlNetwork& network() const { return network_; }
  /// Returns the cache of agreed requests. The caller must call note() for each operation that it
  /// executes, with responses_seen() as the message number. Operations of the kinds kTask,
  /// kShutdown and kJoin are not cached.
  ResponseCache& cache() { return cache_; }
  /// Returns the number of response messages that this rank has received or, on the root, created.
  std::uint64_t responses_seen() const { return responses_seen_; }

  /// Adds new requests of this rank. The requests need not exist after the call. `operations` is
  /// the number of operations that this rank has completed so far.
  void submit(std::span<const Request* const> requests, std::uint64_t operations, Time now);
  /// Receives and sends messages. Returns the next response message, if there is one. The caller
  /// must execute this message before it calls next() again. Blocks only while a message does not
  /// fit into shared memory. Throws CommunicationError if another rank has sent its failure, if an
  /// operation has timed out on the root, or if a message is invalid.
  std::optional<ResponseMessage> next(Time now);
  /// Returns whether next() is delaying responses in order to fuse more operations.
  bool is_holding_back() const { return !ready_.empty(); }
  /// Looks for operations that have waited too long; see StallWatch. The caller must call this
  /// function periodically.
  void look_for_stalls(Time now);
  /// Sends the failure `text` to the parent and the children of this rank. Rings the doorbells of
  /// all ranks of the node.
  void spread_failure(const std::string& text);

 private:
  void add_requests(std::size_t child, RequestMessage message, Time now);
  void add(std::size_t contributor, Contribution contribution, Time now);
  bool is_stale(std::size_t child, const std::string& name) const;
  void forget_what_all_have_seen();
  void pass_up();
  std::optional<ResponseMessage> answer(Time now);
  bool should_answer(Time now) const;
  void prepare(ResponseMessage& message);

  const Topology& topology_;
  const Settings& settings_;
  ControlNetwork network_;
  ResponseCache cache_;
  ReadinessTable table_;
  StallWatch stalls_;
  std::uint64_t responses_seen_ = 0;
  std::vector<std::uint64_t> seen_by_;  // by child: the latest RequestMessage::responses_seen
  // The names of operations whose response was an error, with the number of the response message. A
  // contribution to such an operation is stale if the child that sent it had not received that
  // message.
  std::unordered_map<std::string, std::uint64_t> refused_;
  // The next message to the parent. The root uses only the list of unsatisfiable operations.
  RequestMessage outgoing_;
  int last_to_join_ = 0;
  // Used only on the root:
  std::vector<Contribution> ready_;  // complete, but without a response yet
  std::vector<Response> errors_;     // error responses that are not sent yet
  std::size_t ready_bytes_ = 0;
  bool is_urgent_ = false;     // ready_ holds an operation that cannot be fused
  std::size_t under_way_ = 0;  // the latest result of ReadinessTable::under_way()
  Time first_ready_{}, last_arrival_{};
};

}  // namespace horo::coordinator
