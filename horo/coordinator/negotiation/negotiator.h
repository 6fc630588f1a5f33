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

/// Negotiates the next operations with the other ranks. Once all ranks of this rank's subtree of
/// the control tree have submitted an operation or joined, the rank sends one contribution to its
/// parent. The root creates the responses. Every rank passes them to its children. All ranks
/// receive the same responses in the same order. Used by one thread at a time.
class Negotiator {
 public:
  using Time = ReadinessTable::Time;

  /// Collective over `transport`. The arguments must outlive this object. For `long_waits`, see
  /// StallWatch.
  Negotiator(collectives::Transport& transport, const Settings& settings,
             observe::LongWaits* long_waits = nullptr);

  ControlNetwork& network() { return network_; }
  const ControlNetwork& network() const { return network_; }
  /// Returns the cache of agreed requests. The caller must add each cacheable operation that it
  /// executes, with responses_seen() as the message number.
  ResponseCache& cache() { return cache_; }
  /// Returns the number of response messages that next() has returned.
  std::uint64_t responses_seen() const { return responses_seen_; }

  /// Adds new requests of this rank. `operations` is the number of operations that this rank has
  /// completed so far.
  void submit(std::span<const Request* const> requests, std::uint64_t operations, Time now);
  /// Receives and sends messages. Returns the next responses, if there are any. The caller must
  /// execute them before it calls next() again. Throws CommunicationError if a rank has failed.
  std::optional<ResponseMessage> next(Time now);
  /// Returns whether next() is delaying responses in order to fuse more operations.
  bool is_holding_back() const { return !ready_.empty(); }
  /// Checks for operations that have waited too long. The caller must call this function
  /// periodically.
  void look_for_stalls(Time now);
  /// Sends the failure of this rank to its parent and children in the tree. Wakes all ranks of the
  /// node.
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
  std::vector<std::uint64_t> seen_by_;  // by child
  // The names of operations whose response was an error, with the number of the response message. A
  // contribution to such an operation is stale if the sender had not received that message.
  std::unordered_map<std::string, std::uint64_t> refused_;
  // The next message to the parent. The root uses only the list of unsatisfiable operations.
  RequestMessage outgoing_;
  int last_to_join_ = 0;
  // Used only on the root:
  std::vector<Contribution> ready_;  // complete, but without a response yet
  std::vector<Response> errors_;     // sent with the responses for ready_
  std::size_t ready_bytes_ = 0;
  bool is_urgent_ = false;     // ready_ holds an operation that cannot be fused
  std::size_t under_way_ = 0;  // number of operations that may be ready soon
  Time first_ready_{}, last_arrival_{};
};

}  // namespace horo::coordinator
