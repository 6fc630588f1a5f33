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

/// One rank's part in the agreement of all ranks on the next operations. Once all ranks of its
/// subtree of the control tree have submitted an operation, the rank sends one contribution to its
/// parent. The root creates the responses. Every rank passes them to its children. All ranks
/// receive the same responses in the same order. Used by one thread at a time.
class Negotiator {
 public:
  using Time = ReadinessTable::Time;

  /// Collective over the job. The arguments must outlive this object. `long_waits`: see StallWatch.
  Negotiator(collectives::Transport& transport, const Settings& settings,
             observe::LongWaits* long_waits = nullptr);

  ControlNetwork& network() { return network_; }
  const ControlNetwork& network() const { return network_; }
  /// The cache of agreed requests. The caller adds the operations that it has executed, with
  /// responses_seen() as the message number.
  ResponseCache& cache() { return cache_; }
  /// Number of response messages that next() has returned.
  std::uint64_t responses_seen() const { return responses_seen_; }

  /// Adds new requests of this rank. `operations`: the number of operations that this rank has
  /// completed so far.
  void submit(std::span<const Request* const> requests, std::uint64_t operations, Time now);
  /// Receives and sends messages. Returns the next responses, if there are any. Throws
  /// CommunicationError if a rank has failed.
  std::optional<ResponseMessage> next(Time now);
  /// Whether next() delays responses for a moment, to fuse more operations.
  bool is_holding_back() const { return !ready_.empty(); }
  /// Checks for operations that have waited too long. Called periodically.
  void look_for_stalls(Time now);
  /// Sends the failure of this rank to its parent and children in the tree.
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
  // The names whose response was an error, with the number of that response message. A contribution
  // that was sent before its sender had received the message is stale.
  std::unordered_map<std::string, std::uint64_t> refused_;
  RequestMessage outgoing_;  // the next message to the parent; not on the root
  int last_to_join_ = 0;
  // Only on the root:
  std::vector<Contribution> ready_;  // complete, not answered yet
  std::vector<Response> errors_;     // sent with the responses for ready_
  std::size_t ready_bytes_ = 0;
  bool is_urgent_ = false;     // ready_ holds an operation that cannot be fused
  std::size_t under_way_ = 0;  // number of operations that may be ready soon
  Time first_ready_{}, last_arrival_{};
};

}  // namespace horo::coordinator
