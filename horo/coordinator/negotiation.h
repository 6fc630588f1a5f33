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
#include "horo/coordinator/control_network.h"
#include "horo/coordinator/negotiator.h"
#include "horo/coordinator/response_cache.h"
#include "horo/coordinator/stall_watch.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// One rank's part in agreeing what all ranks do next. What its subtree of the control tree has
/// submitted goes to its parent once all ranks of the subtree have; the root answers, and the
/// answers go down the tree to every rank, in one order. Used by one thread at a time.
class Negotiation {
 public:
  using Time = Negotiator::Time;

  /// Collective over the job. All outlive this.
  Negotiation(collectives::Transport& transport, const Settings& settings);

  ControlNetwork& network() { return network_; }
  const ControlNetwork& network() const { return network_; }
  /// What was agreed. The caller notes what it has carried out, with responses_seen().
  ResponseCache& cache() { return cache_; }
  /// How many response messages next() has returned.
  std::uint64_t responses_seen() const { return responses_seen_; }

  /// Notes what this rank has newly submitted. `operations`: how many it has completed.
  void submit(std::span<const Request* const> requests, std::uint64_t operations, Time now);
  /// Passes messages on. Returns the next answers to be carried out, if there are any; every rank
  /// gets the same ones in the same order. Throws CommunicationError if a rank has failed.
  std::optional<ResponseMessage> next(Time now);
  /// Whether next() holds back answers for a moment, to fuse more of them.
  bool is_holding_back() const { return !ready_.empty(); }
  /// Looks for operations that have waited too long. Now and then.
  void look_for_stalls(Time now);
  /// Tells the neighbours in the tree that this rank cannot go on.
  void spread_failure(const std::string& text);

 private:
  void take_in(std::size_t child, RequestMessage message, Time now);
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
  Negotiator negotiator_;
  StallWatch stalls_;
  std::uint64_t responses_seen_ = 0;
  std::vector<std::uint64_t> seen_by_;  // by child
  // Names answered with an error, and in which message: what was on its way then is out of date.
  std::unordered_map<std::string, std::uint64_t> refused_;
  RequestMessage outgoing_;  // all but the root: what goes to the parent next
  int last_to_join_ = 0;
  std::vector<Contribution> ready_;  // the root: complete, not answered yet
  std::vector<Response> errors_;     // the root: to be answered with ready_
  std::size_t ready_bytes_ = 0;
  bool is_urgent_ = false;     // ready_ holds what gains nothing by waiting
  std::size_t under_way_ = 0;  // operations that may soon be ready too
  Time first_ready_{}, last_arrival_{};
};

}  // namespace horo::coordinator
