#include "horo/coordinator/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/coordinator/executor.h"
#include "horo/coordinator/fusion.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 100ms;  // of deadlines, while something is pending
constexpr auto kIdleInterval = 250ms;   // of the abort signal, while nothing is
constexpr auto kShortNap = 50us;        // between looks for messages, while something is pending
constexpr auto kLongNap = 1ms;
// The other ranks' own deadline: rank 0 gets the first word, since it knows which ranks are
// missing.
constexpr auto kLeaderAdvantage = 2s;

bool is_cacheable(Kind kind) {
  return kind == Kind::kAllreduce || kind == Kind::kBroadcast || kind == Kind::kReduceScatter ||
         kind == Kind::kBarrier;
}

std::exception_ptr to_exception(ErrorKind kind, const std::string& text) {
  switch (kind) {
    case ErrorKind::kMismatch:
      return std::make_exception_ptr(MismatchError(text));
    case ErrorKind::kShutdown:
      return std::make_exception_ptr(ShutdownError(text));
    case ErrorKind::kCommunication:
      return std::make_exception_ptr(CommunicationError(text));
    case ErrorKind::kNone:
      break;
  }
  return nullptr;
}

Response error_response(const std::string& name, ErrorKind kind, std::string text) {
  Response response;
  response.kind = Kind::kTask;
  response.tensors = {{0, name}};
  response.error = kind;
  response.error_text = std::move(text);
  return response;
}

}  // namespace

Coordinator::Coordinator(collectives::Transport& transport, const Settings& settings,
                         const collectives::AllreduceSelection& allreduce)
    : transport_(transport),
      topology_(transport.topology()),
      settings_(settings),
      policy_(transport.wait_policy()),
      channel_(transport.make_message_channel()),
      communicator_(transport, settings, allreduce, policy_, policy_),
      cache_(settings.cache_capacity),
      negotiator_(topology_),
      seen_by_(topology_.size, 0),
      thread_([this, label = log_label()] { run(label); }) {}

Coordinator::~Coordinator() {
  should_stop_ = true;
  queue_.wake();
}

std::shared_ptr<Completion> Coordinator::submit(Entry entry) {
  std::shared_ptr<Completion> completion = entry.completion;
  queue_.submit(std::move(entry));
  return completion;
}

void Coordinator::shut_down() {
  Entry entry;
  entry.request.name = "horo.shutdown";
  entry.request.kind = Kind::kShutdown;
  const auto completion = entry.completion;
  queue_.submit(std::move(entry));
  completion->wait();
  if (thread_.joinable()) thread_.join();
}

void Coordinator::fail(const std::string& text) noexcept {
  failure_ = text;
  should_fail_ = true;
  queue_.wake();
  if (thread_.joinable()) thread_.join();
}

Counters Coordinator::counters() const {
  return {control_messages_, control_bytes_, collectives_, tensors_, payload_bytes_};
}

void Coordinator::run(const std::string& log_label) {
  set_log_label(log_label);
  try {
    while (!is_finished_) {
      announce();
      const bool did_work = negotiate();
      if (is_finished_) break;
      check_deadlines();
      rest(did_work);
    }
    end_all(std::make_exception_ptr(ShutdownError("horo has been shut down on this rank")));
  } catch (const std::exception& error) {
    // The job's first failure is what all ranks hear.
    const std::string text = is_aborted() ? policy_.abort->text() : error.what();
    spread_failure(text);
    end_all(std::make_exception_ptr(CommunicationError(text)));
  }
}

bool Coordinator::is_aborted() const {
  return policy_.abort != nullptr && policy_.abort->is_raised();
}

// How long something has waited that is due since `since`, without the time that is excused.
std::chrono::nanoseconds Coordinator::age_of(Negotiator::Time since, Negotiator::Time now) const {
  return now - (policy_.abort == nullptr ? since : std::max(since, policy_.abort->excused()));
}

// The others should not have to find out by their own deadlines.
void Coordinator::spread_failure(const std::string& text) noexcept {
  transport_.abort(text.c_str());
  try {
    if (!is_leader()) {
      send(0, encode(RequestMessage{.failure = text}));
      return;
    }
    const auto bytes =
        encode(ResponseMessage{{error_response("", ErrorKind::kCommunication, text)}});
    for (int rank = 1; rank < topology_.size; ++rank) send(rank, bytes);
  } catch (const std::exception& error) {
    log_debug("could not tell the other ranks: {}", error.what());
  }
}

// Steps 1 and 2: what this rank has newly submitted goes to rank 0, by number where possible.
void Coordinator::announce() {
  if (should_fail_) throw CommunicationError(failure_);
  std::vector<Entry> entries = queue_.take();
  if (entries.empty()) return;
  RequestMessage message;
  message.responses_seen = responses_seen_;
  for (Entry& entry : entries) {
    if (const auto id = cache_.find(entry.request))
      message.cached.push_back(*id);
    else
      message.requests.push_back(entry.request);
    std::string name = entry.request.name;
    pending_.emplace(std::move(name), std::move(entry));
  }
  if (is_leader())
    take_in(message, topology_.rank);
  else
    send(0, encode(message));
}

// Step 3. Returns whether any message was handled.
bool Coordinator::negotiate() {
  bool did_work = false;
  while (!is_finished_) {
    const auto message = channel_->poll();
    if (!message) break;
    did_work = true;
    if (is_leader())
      take_in(decode_requests(message->bytes), message->source);
    else
      take_in(decode_responses(message->bytes));
  }
  if (is_leader() && !is_finished_) answer_orphans();
  if (is_leader() && !agreements_.empty()) {
    respond();
    did_work = true;
  }
  return did_work;
}

void Coordinator::take_in(const RequestMessage& message, int source) {
  if (!message.failure.empty()) throw CommunicationError(message.failure);
  seen_by_[source] = std::max(seen_by_[source], message.responses_seen);
  const auto now = std::chrono::steady_clock::now();
  const auto add = [&](const Request& request) {
    if (auto agreement = negotiator_.add(source, request, now))
      agreements_.push_back(std::move(*agreement));
  };
  for (CacheId id : message.cached) add(cache_.at(id));
  for (const Request& request : message.requests) add(request);
}

void Coordinator::respond() {
  seen_by_[0] = responses_seen_;
  cache_.retire(*std::min_element(seen_by_.begin(), seen_by_.end()));
  ResponseMessage message;
  message.responses = fuse(agreements_, settings_.bucket_bytes, cache_);
  agreements_.clear();
  send_to_all(message);
}

// Steps 4 and 5, for all responses of a message, in their order.
void Coordinator::take_in(const ResponseMessage& message) {
  if (!is_leader()) cache_.retire(responses_seen_);
  ++responses_seen_;
  for (const Response& response : message.responses) carry_out(response);
}

void Coordinator::carry_out(const Response& response) {
  if (response.error == ErrorKind::kCommunication) throw CommunicationError(response.error_text);
  std::vector<Entry> entries = take_entries(response);
  if (response.error != ErrorKind::kNone) {
    complete(entries, to_exception(response.error, response.error_text));
    return;
  }
  std::exception_ptr error;
  for (const Entry& entry : entries) entry.completion->start();
  try {
    execute(response, entries, communicator_, topology_);
  } catch (const InvalidArgument&) {
    error = std::current_exception();
  } catch (const MismatchError&) {
    error = std::current_exception();
  } catch (...) {
    // The other ranks may be in the middle of it: this rank cannot go on to the next.
    complete(entries, std::current_exception());
    throw;
  }
  ++collectives_;
  tensors_ += entries.size();
  for (const Entry& entry : entries) {
    payload_bytes_ += entry.input.bytes();
    if (is_cacheable(response.kind)) cache_.note(entry.request, responses_seen_);
  }
  complete(entries, error);
  if (response.kind == Kind::kShutdown) is_finished_ = true;
}

std::vector<Entry> Coordinator::take_entries(const Response& response) {
  std::vector<std::unordered_map<std::string, Entry>::iterator> found;
  for (const Response::Tensor& tensor : response.tensors) {
    const std::string& name = tensor.cached != 0 ? cache_.at(tensor.cached).name : tensor.name;
    const auto entry = pending_.find(name);
    if (entry != pending_.end())
      found.push_back(entry);
    else if (response.error ==
             ErrorKind::kNone)  // an error may concern what this rank never submitted
      throw CommunicationError(
          fmt::format("rank 0 answered for '{}', which is not pending here", name));
  }
  std::vector<Entry> entries;
  for (const auto& entry : found) {
    entries.push_back(std::move(entry->second));
    pending_.erase(entry);
  }
  return entries;
}

void Coordinator::complete(std::vector<Entry>& entries, const std::exception_ptr& error) {
  for (Entry& entry : entries) {
    queue_.release(entry.request.name);
    entry.completion->complete(error);
  }
}

void Coordinator::check_deadlines() {
  if (is_aborted()) throw CommunicationError(policy_.abort->text());
  const auto now = std::chrono::steady_clock::now();
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  if (is_leader()) return warn_of_stalls(now);
  for (const auto& [name, entry] : pending_) {
    if (age_of(entry.submitted, now) < settings_.timeout + policy_.grace + kLeaderAdvantage)
      continue;
    throw CommunicationError(fmt::format(
        "'{}' was submitted {} ago and rank 0 has not answered (HORO_TIMEOUT is {})", name,
        format_duration(now - entry.submitted), format_duration(settings_.timeout)));
  }
}

// Operations that a rank which has shut down left open.
void Coordinator::answer_orphans() {
  ResponseMessage message;
  for (const Negotiator::Orphan& orphan : negotiator_.take_orphans())
    message.responses.push_back(
        error_response(orphan.name, ErrorKind::kShutdown,
                       fmt::format("'{}' cannot complete: {} has shut down without submitting it",
                                   orphan.name, topology_.describe(orphan.departed))));
  if (!message.responses.empty()) send_to_all(message);
}

void Coordinator::warn_of_stalls(Negotiator::Time now) {
  ResponseMessage message;
  for (const Waiting& waiting :
       negotiator_.waiting_longer_than(std::min(settings_.stall_warning, settings_.timeout), now)) {
    std::vector<std::string> missing;
    for (int rank : waiting.missing) missing.push_back(topology_.describe(rank));
    const std::string text = fmt::format("'{}' has waited {} for {}", waiting.name,
                                         format_duration(waiting.age), fmt::join(missing, ", "));
    if (age_of(now - waiting.age, now) >= settings_.timeout + policy_.grace) {
      message.responses.push_back(
          error_response(waiting.name, ErrorKind::kCommunication,
                         text + fmt::format(" to submit it (HORO_TIMEOUT is {})",
                                            format_duration(settings_.timeout))));
      break;
    }
    if (is_watched_) continue;
    auto& warned = warned_[waiting.name];
    if (now - warned < settings_.stall_warning) continue;
    warned = now;
    log_warning("{} to submit it", text);
  }
  std::erase_if(warned_,
                [&](const auto& item) { return now - item.second > 2 * settings_.stall_warning; });
  if (!message.responses.empty()) send_to_all(message);
}

void Coordinator::send_to_all(const ResponseMessage& message) {
  const auto bytes = encode(message);
  for (int rank = 1; rank < topology_.size; ++rank) send(rank, bytes);
  take_in(message);
}

// Between rounds: right on after work, short naps while something is pending, sleep while nothing
// is.
void Coordinator::rest(bool did_work) {
  const auto now = std::chrono::steady_clock::now();
  if (did_work || !queue_.is_empty()) {
    last_work_ = now;
    return;
  }
  if (should_stop_) {
    is_finished_ = true;
    return;
  }
  if (now - last_work_ < policy_.spin) return;
  if (pending_.empty()) {
    queue_.wait(kIdleInterval);
    last_work_ = std::chrono::steady_clock::now();
    return;
  }
  if (now - last_work_ < policy_.spin + policy_.yield)
    std::this_thread::yield();
  else
    queue_.wait(now - last_work_ < 10ms ? std::chrono::nanoseconds(kShortNap) : kLongNap);
}

void Coordinator::end_all(const std::exception_ptr& error) {
  queue_.close(error);
  for (Entry& entry : queue_.take()) entry.completion->complete(error);
  for (auto& [name, entry] : pending_) entry.completion->complete(error);
  pending_.clear();
}

void Coordinator::send(int destination, std::span<const std::byte> bytes) {
  channel_->send(destination, bytes);
  ++control_messages_;
  control_bytes_ += bytes.size();
}

}  // namespace horo::coordinator
