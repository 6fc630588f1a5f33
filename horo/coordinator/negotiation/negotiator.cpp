#include "horo/coordinator/negotiation/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/coordinator/negotiation/fusion.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

// The root delays the response to ready allreduces, so that more allreduces can become ready and
// share a bucket with them. The root waits until no contribution has arrived for kQuiet, but at
// most for kLongestHold; see should_answer(). The root does not wait for an incomplete operation
// whose latest contribution is older than kRecent.
constexpr auto kQuiet = 100us;
constexpr auto kLongestHold = 1ms;
constexpr auto kRecent = 1ms;

Response error_response(const std::string& name, ErrorKind kind, std::string text) {
  Response response;
  response.kind = Kind::kTask;
  response.tensors = {{0, name}};
  response.error = kind;
  response.error_text = std::move(text);
  return response;
}

bool gains_by_waiting(const Request& request) {
  return request.kind == Kind::kAllreduce && request.members.empty();
}

}  // namespace

Negotiator::Negotiator(collectives::Transport& transport, const Settings& settings,
                       observe::LongWaits* long_waits)
    : topology_(transport.topology()),
      settings_(settings),
      network_(transport),
      cache_(settings.cache_capacity),
      table_(network_.tree().ranks_of),
      stalls_(topology_, settings_, transport.wait_policy(), long_waits),
      seen_by_(network_.tree().children.size(), 0) {}

void Negotiator::submit(std::span<const Request* const> requests, std::uint64_t operations,
                        Time now) {
  for (const Request* request : requests) {
    const auto id = cache_.find(*request);
    add(0, id ? contribution_of(*id, cache_.at(*id)) : contribution_of(topology_.rank, *request),
        now);
    if (request->kind == Kind::kJoin) {
      table_.join(0, {topology_.rank});
      outgoing_.joined.push_back(topology_.rank);
      last_to_join_ = topology_.rank;
    }
    if (request->kind == Kind::kShutdown) table_.shut_down(0, {topology_.rank, operations, {}});
  }
}

void Negotiator::add(std::size_t contributor, Contribution contribution, Time now) {
  table_.add(contributor, std::move(contribution), now);
  last_arrival_ = now;
}

// Passes a response message to the children before this rank executes the message, so that all
// ranks start the collective at about the same time. Returns after each response message, because
// the caller must execute this message before next() processes another message. The execution
// changes the cache, and later messages refer to the changed cache.
std::optional<ResponseMessage> Negotiator::next(Time now) {
  network_.flush();
  while (const auto message = network_.poll()) {
    if (!message->is_from_parent) {
      add_requests(message->child, decode_requests(message->bytes), now);
      continue;
    }
    network_.send_to_children(message->bytes);
    ResponseMessage responses = decode_responses(message->bytes);
    prepare(responses);
    return responses;
  }
  if (network_.tree().is_root()) return answer(now);
  pass_up();
  return std::nullopt;
}

// Returns whether a contribution or report of `child` belongs to an operation that has ended. An
// error response ends an operation even if some ranks have not submitted the operation yet. What a
// child sent before it received the error response belongs to the ended operation.
bool Negotiator::is_stale(std::size_t child, const std::string& name) const {
  const auto refused = refused_.find(name);
  return refused != refused_.end() && seen_by_[child] < refused->second;
}

void Negotiator::add_requests(std::size_t child, RequestMessage message, Time now) {
  if (!message.failure.empty()) throw CommunicationError(message.failure);
  seen_by_[child] = std::max(seen_by_[child], message.responses_seen);
  const std::size_t contributor = child + 1;
  // Adds the reports before the contributions. A contribution may complete the operation of a
  // report, which removes the operation from the table. A report that is added afterwards would add
  // the operation to the table again.
  for (const Waiting& waiting : message.waiting)
    if (!is_stale(child, waiting.name)) table_.report(contributor, waiting, now);
  for (const CacheId id : message.cached) {
    const std::shared_ptr<const Agreed>& agreed = cache_.at(id);
    if (!is_stale(child, agreed->request.name)) add(contributor, contribution_of(id, agreed), now);
  }
  for (Contribution& contribution : message.contributions) {
    if (contribution.cached != 0) contribution.agreed = cache_.at(contribution.cached);
    if (!is_stale(child, contribution.name())) add(contributor, std::move(contribution), now);
  }
  if (!message.joined.empty() && !is_stale(child, std::string(kJoinName))) {
    table_.join(contributor, message.joined);
    outgoing_.joined.insert(outgoing_.joined.end(), message.joined.begin(), message.joined.end());
    last_to_join_ = message.joined.back();
  }
  for (RankShutdown& shutdown : message.shutdowns)
    table_.shut_down(contributor, std::move(shutdown));
  for (UnsatisfiableOperation& blocked : message.unsatisfiable)
    if (!is_stale(child, blocked.name)) outgoing_.unsatisfiable.push_back(std::move(blocked));
}

// Sends the changes in this rank's subtree to the parent. Sends a cache number only if this rank
// has not evicted the number. When the parent reads the message, it may have executed more response
// messages than this rank, and may have evicted the number. However, the parent keeps an evicted
// entry until all children have executed the eviction, so it can still look up the number.
void Negotiator::pass_up() {
  for (Contribution& contribution : table_.take_complete()) {
    if (contribution.cached != 0 && !cache_.is_live(contribution.cached)) {
      std::vector<int> subtree;
      for (const std::vector<int>& ranks : network_.tree().ranks_of)
        subtree.insert(subtree.end(), ranks.begin(), ranks.end());
      std::ranges::sort(subtree);
      spell_out(contribution, subtree);
    }
    if (contribution.cached != 0 && contribution.absent.empty())
      outgoing_.cached.push_back(contribution.cached);
    else
      outgoing_.contributions.push_back(std::move(contribution));
  }
  outgoing_.shutdowns = table_.take_shutdowns();
  for (UnsatisfiableOperation& blocked : table_.take_unsatisfiable())
    outgoing_.unsatisfiable.push_back(std::move(blocked));
  if (outgoing_.is_empty()) return;
  outgoing_.responses_seen = responses_seen_;
  // Other ranks may wait for operations that a join completes or that a shutdown ends.
  const bool is_urgent = !outgoing_.joined.empty() || !outgoing_.shutdowns.empty();
  network_.send_to_parent(encode(outgoing_), is_urgent);
  outgoing_ = {};
}

// Called only on the root. Creates the next response message and sends it to the children. Returns
// nothing if there is no error response and either no operation is ready or should_answer() delays
// the ready operations.
std::optional<ResponseMessage> Negotiator::answer(Time now) {
  std::vector<UnsatisfiableOperation> unsatisfiable = std::exchange(outgoing_.unsatisfiable, {});
  outgoing_ = {};
  for (UnsatisfiableOperation& blocked : table_.take_unsatisfiable())
    unsatisfiable.push_back(std::move(blocked));
  for (const UnsatisfiableOperation& blocked : unsatisfiable)
    errors_.push_back(error_response(
        blocked.name, ErrorKind::kShutdown,
        fmt::format("'{}' cannot complete: {} has shut down after {} operations without submitting "
                    "it; call join() where ranks have different amounts of data",
                    blocked.name, topology_.describe(blocked.rank), blocked.operations)));
  std::vector<Contribution> complete = table_.take_complete();
  for (Contribution& contribution : complete) {
    if (ready_.empty()) first_ready_ = now;
    ready_bytes_ += contribution.request().bytes();
    is_urgent_ = is_urgent_ || !gains_by_waiting(contribution.request());
    ready_.push_back(std::move(contribution));
  }
  if (!complete.empty() || last_arrival_ == now) under_way_ = table_.under_way(kRecent, now);
  if (errors_.empty() && (ready_.empty() || !should_answer(now))) return std::nullopt;

  ResponseMessage message;
  message.responses = fuse(ready_, settings_.bucket_bytes, cache_, topology_);
  for (Response& response : message.responses)
    if (response.kind == Kind::kJoin) response.root = last_to_join_;
  std::ranges::move(errors_, std::back_inserter(message.responses));
  errors_.clear();
  ready_.clear();
  ready_bytes_ = 0;
  is_urgent_ = false;
  table_.refresh_join(now);
  network_.send_to_children(encode(message));
  prepare(message);
  return message;
}

// Returns whether the root responds to the ready operations now. It does not wait if an operation
// cannot be fused, if a bucket is full, or if at least as many operations are ready as are under
// way (see ReadinessTable::under_way()).
bool Negotiator::should_answer(Time now) const {
  return is_urgent_ || ready_bytes_ >= settings_.bucket_bytes || ready_.size() >= under_way_ ||
         now - last_arrival_ >= kQuiet || now - first_ready_ >= kLongestHold;
}

// Prepares a response message for the execution on this rank. Fills in data from the cache and
// removes ended operations from the table. All ranks have executed the same earlier messages, so
// all ranks find the same cache entries. Flushes first, because the other ranks of the node cannot
// start the collective without the message. Retires cache entries before it increments
// responses_seen_, because this rank has executed only the earlier messages.
void Negotiator::prepare(ResponseMessage& message) {
  network_.flush_all();
  forget_what_all_have_seen();
  ++responses_seen_;
  for (Response& response : message.responses) {
    if (response.is_cached()) {
      const Agreed& agreed = *cache_.at(response.tensors.front().cached);
      response.kind = agreed.request.kind;
      response.type = agreed.request.type;
      response.op = agreed.request.op;
      response.root = agreed.request.root;
      response.rows_of = agreed.rows_of;
    }
    if (response.error == ErrorKind::kCommunication) throw CommunicationError(response.error_text);
    for (Response::Tensor& tensor : response.tensors) {
      if (tensor.cached != 0) tensor.agreed = cache_.at(tensor.cached);
      if (response.error == ErrorKind::kNone) continue;
      table_.remove(tensor.name);
      // Deletes unsent reports about the ended operation. The next message to the parent states
      // that this rank has received the error. The parent would therefore assign such a report to a
      // new operation of the same name.
      std::erase_if(outgoing_.waiting,
                    [&](const Waiting& waiting) { return waiting.name == tensor.name; });
      refused_[tensor.name] = responses_seen_;
      if (tensor.name == kJoinName) table_.end_join();
    }
    if (response.kind != Kind::kJoin) continue;
    table_.end_join();
    // All ranks have joined, so no child sends a cache number before it has executed this response.
    std::ranges::fill(seen_by_, responses_seen_);
  }
}

// Deletes evicted cache entries and refused names that no later message of a child can refer to. A
// child may send a cache number until it has executed the eviction of the number. A child whose
// ranks have all joined sends no cache numbers.
void Negotiator::forget_what_all_have_seen() {
  std::uint64_t seen = responses_seen_;
  for (std::size_t child = 0; child < seen_by_.size(); ++child)
    if (!table_.has_joined(child + 1)) seen = std::min(seen, seen_by_[child]);
  cache_.retire(seen);
  if (refused_.empty()) return;
  std::erase_if(refused_, [&](const auto& item) { return item.second <= seen; });
}

void Negotiator::look_for_stalls(Time now) {
  if (!network_.tree().is_root()) {
    for (Waiting& waiting : stalls_.changes(table_, now))
      outgoing_.waiting.push_back(std::move(waiting));
    return;
  }
  if (const auto expired = stalls_.check(table_, now))
    errors_.push_back(error_response(expired->name, ErrorKind::kCommunication, expired->error));
}

// Each rank that receives the failure also calls this function, so the failure spreads along the
// tree. The doorbells end deep sleeps too. A rank of this node that receives no message finds the
// abort signal when it wakes up.
void Negotiator::spread_failure(const std::string& text) {
  if (!network_.tree().is_root())
    network_.send_to_parent(encode(RequestMessage{.failure = text}), true);
  if (!network_.tree().children.empty())
    network_.send_to_children(
        encode(ResponseMessage{{error_response("", ErrorKind::kCommunication, text)}}));
  network_.ring_all();
}

}  // namespace horo::coordinator
