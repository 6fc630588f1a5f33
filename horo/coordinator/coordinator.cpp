#include "horo/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/coordinator/device_lane.h"
#include "horo/coordinator/executor.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 100ms;  // of deadlines, while something is pending
constexpr auto kIdleInterval = 250ms;   // of the abort signal, while nothing is
constexpr auto kShortNap = 50us;        // between looks for messages of other nodes
constexpr auto kLongNap = 1ms;
// The other ranks' own deadline: rank 0 gets the first word, since it knows which ranks are
// missing.
constexpr auto kLeaderAdvantage = 2s;
constexpr const char* kEnded = "horo has been shut down on this rank";

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

const std::string& name_of(const Response::Tensor& tensor) {
  return tensor.cached != 0 ? tensor.agreed->request.name : tensor.name;
}

bool is_cacheable(Kind kind) {
  return kind != Kind::kTask && kind != Kind::kShutdown && kind != Kind::kJoin;
}

}  // namespace

Coordinator::Coordinator(collectives::Transport& transport, const Settings& settings,
                         const collectives::AllreduceSelection& allreduce,
                         observe::FlightRecorder& recorder)
    : transport_(transport),
      topology_(transport.topology()),
      settings_(settings),
      policy_(transport.wait_policy()),
      negotiation_(transport, settings),
      communicator_(transport, settings, allreduce, policy_, policy_),
      flights_(recorder, topology_.set_name()),
      queue_(doorbell()),
      thread_([this, label = log_label()] { run_thread(label); }) {}

Coordinator::~Coordinator() {
  should_stop_ = true;
  doorbell().ring();
}

std::shared_ptr<Completion> Coordinator::submit(Entry entry) {
  std::shared_ptr<Completion> completion = entry.completion;
  flights_.open(entry);
  queue_.submit(std::move(entry));
  return completion;
}

void Coordinator::perform(Entry entry) {
  forbid_blocking_in_callbacks();
  const std::shared_ptr<Completion> completion = entry.completion;
  flights_.open(entry);
  queue_.submit_quietly(std::move(entry));
  if (!charge_.take()) {
    doorbell().ring();
    return completion->wait();
  }
  for (Pause pause; !completion->is_done() && !is_finished_;) {
    doorbell().announce(Doorbell::Sleep::kNone);
    const std::uint32_t seen = doorbell().rings();
    pause = run_rounds(completion.get());
    if (pause.duration.count() == 0) continue;
    doorbell().announce(pause.sleep);
    doorbell().wait(seen, pause.duration);
  }
  // The thread goes on with what is left.
  const bool is_idle = pending_.empty() && queue_.is_empty() && !is_finished_;
  doorbell().announce(is_idle ? Doorbell::Sleep::kDeep : Doorbell::Sleep::kLight);
  charge_.give_back();
  if (!is_idle || !queue_.is_empty()) doorbell().ring();
  completion->wait();
}

void Coordinator::shut_down() {
  Entry entry;
  entry.request.name = kShutdownName;
  entry.request.kind = Kind::kShutdown;
  submit(std::move(entry))->wait();
  if (thread_.joinable()) thread_.join();
}

void Coordinator::fail(const std::string& text) noexcept {
  failure_ = text;
  should_fail_ = true;
  doorbell().ring();
  if (thread_.joinable()) thread_.join();
}

Counters Coordinator::counters() const {
  const ControlNetwork& network = negotiation_.network();
  Counters counters;
  counters.control_messages_sent = network.between_nodes().messages;
  counters.control_bytes_sent = network.between_nodes().bytes;
  counters.node_messages_sent = network.in_node().messages;
  counters.node_bytes_sent = network.in_node().bytes;
  counters.collectives = collectives_;
  counters.tensors = tensors_;
  counters.payload_bytes = payload_bytes_;
  return counters;
}

void Coordinator::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  for (bool is_finished = false; !is_finished;) {
    const std::uint32_t changes = charge_.changes();
    if (!charge_.take()) {
      if (!run_callbacks()) charge_.stand_by(changes, kIdleInterval);
      continue;
    }
    doorbell().announce(Doorbell::Sleep::kNone);
    const std::uint32_t seen = doorbell().rings();
    const Pause pause = run_rounds(nullptr);
    is_finished = is_finished_;
    doorbell().announce(pause.sleep);
    charge_.give_back();
    const bool did_more = run_callbacks();
    if (!is_finished && !did_more && pause.duration.count() > 0)
      doorbell().wait(seen, pause.duration);
  }
}

// Rounds until there is something better to do than the next one: to sleep, to run callbacks, or,
// once `until` is done, what its submitter does next. By whoever is in charge.
Coordinator::Pause Coordinator::run_rounds(const Completion* until) {
  while (!is_finished_) {
    const bool did_work = run_round();
    if (is_finished_ || (until != nullptr && until->is_done())) break;
    const Pause pause = pause_after(did_work);
    if (pause.duration.count() > 0) return pause;
    if (until == nullptr && did_work) break;
  }
  return {};
}

bool Coordinator::run_round() {
  try {
    if (should_fail_) throw CommunicationError(failure_);
    const Time now = std::chrono::steady_clock::now();
    bool did_work = announce(now);
    check_deadlines(now);
    while (!is_finished_) {
      const std::optional<ResponseMessage> message = negotiation_.next(now);
      if (!message) break;
      did_work = true;
      flights_.agree();
      for (const Response& response : message->responses) carry_out(response);
    }
    return did_work;
  } catch (const std::exception& error) {
    give_up(error.what());
    return true;
  }
}

bool Coordinator::announce(Time now) {
  std::vector<Entry> entries = queue_.take();
  if (entries.empty()) return false;
  std::vector<const Request*> requests;
  for (Entry& entry : entries) {
    std::string name = entry.request.name;
    const auto place = pending_.emplace(std::move(name), std::move(entry)).first;
    requests.push_back(&place->second.request);
  }
  negotiation_.submit(requests, operations_, now);
  return true;
}

void Coordinator::carry_out(const Response& response) {
  std::vector<Entry> entries = take_entries(response);
  if (response.error != ErrorKind::kNone) {
    flights_.note_error(response.error_text);
    return complete(entries, to_exception(response.error, response.error_text));
  }
  if (!entries.empty() && entries.front().on_device != nullptr)
    return hand_to_device(response, std::move(entries));
  flights_.start(entries);
  std::exception_ptr error;
  try {
    execute(response, entries, communicator_, topology_);
  } catch (const InvalidArgument& caught) {
    flights_.note_error(caught.what());
    error = std::current_exception();
  } catch (const MismatchError& caught) {
    flights_.note_error(caught.what());
    error = std::current_exception();
  } catch (const Error&) {
    // The other ranks may be in the middle of it: this rank cannot go on to the next.
    complete(entries, std::current_exception());
    throw;
  } catch (const std::exception& caught) {
    const CommunicationError failure(
        fmt::format("{} failed in {}: {}", topology_.describe(topology_.rank),
                    quote_operation(name_of(response.tensors.front()), topology_), caught.what()));
    complete(entries, std::make_exception_ptr(failure));
    throw failure;
  }
  ++collectives_;
  for (const Entry& entry : entries) {
    tensors_ += entry.request.tensors();
    payload_bytes_ += entry.request.bytes();
  }
  operations_ += entries.size();
  flights_.finish(entries);
  note_agreed(response, entries);
  if (response.kind == Kind::kShutdown) {
    is_finished_ = true;
    end_all(std::make_exception_ptr(ShutdownError(kEnded)));
  }
  complete(entries, error);
}

// What becomes of it there is the lane's affair: the next response does not wait for it, and the
// names may be used again.
void Coordinator::hand_to_device(const Response& response, std::vector<Entry> entries) {
  operations_ += entries.size();
  note_agreed(response, entries);
  for (Entry& entry : entries) const observe::OpenFlight closed = std::move(entry.flight);
  DeviceLane& lane = entries.front().on_device->lane();
  complete(entries, nullptr);
  lane.take(response, std::move(entries), flights_.agreed());
}

// An absent rank notes what the others submitted, which is the same for all of them.
void Coordinator::note_agreed(const Response& response, const std::vector<Entry>& entries) {
  if (!is_cacheable(response.kind)) return;
  ResponseCache& cache = negotiation_.cache();
  const std::uint64_t message = negotiation_.responses_seen();
  if (!entries.empty()) {
    for (const Entry& entry : entries) cache.note(entry.request, response.rows_of, message);
    return;
  }
  for (const Response::Tensor& tensor : response.tensors)
    cache.note(tensor.description(), response.rows_of, message);
}

std::vector<Entry> Coordinator::take_entries(const Response& response) {
  std::vector<std::unordered_map<std::string, Entry>::iterator> found;
  for (const Response::Tensor& tensor : response.tensors) {
    const std::string& name = name_of(tensor);
    const auto entry = pending_.find(name);
    if (entry != pending_.end())
      found.push_back(entry);
    else if (response.error == ErrorKind::kNone &&
             !std::ranges::binary_search(response.absent, topology_.rank))
      // An error may concern what this rank never submitted.
      throw CommunicationError(fmt::format("rank {} answered for {}, which is not pending here",
                                           topology_.job_rank(0),
                                           quote_operation(name, topology_)));
  }
  std::vector<Entry> entries;
  for (const auto& entry : found) {
    entries.push_back(std::move(entry->second));
    pending_.erase(entry);
  }
  return entries;
}

void Coordinator::complete(std::vector<Entry>& entries, const std::exception_ptr& error) {
  bool has_callbacks = false;
  for (Entry& entry : entries) {
    queue_.release(entry.request);
    for (Completion::Callback& callback : entry.completion->complete(error)) {
      const std::scoped_lock lock(callbacks_mutex_);
      due_callbacks_.push_back({entry.request.name, std::move(callback), error});
      has_callbacks = true;
    }
  }
  if (!has_callbacks) return;
  // The thread runs them, wherever it sleeps.
  doorbell().ring();
  doorbell().wake();
  charge_.wake();
}

bool Coordinator::run_callbacks() {
  std::vector<DueCallback> due;
  {
    const std::scoped_lock lock(callbacks_mutex_);
    due.swap(due_callbacks_);
  }
  for (DueCallback& each : due) {
    const observe::OpenFlight running = flights_.run_callback_of(each.operation);
    run_callback(std::move(each.callback), each.error);
  }
  return !due.empty();
}

void Coordinator::check_deadlines(Time now) {
  if (policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  negotiation_.look_for_stalls(now);
  if (topology_.rank == 0 || now < no_deadline_before_) return;
  const auto limit = settings_.timeout + policy_.grace + kLeaderAdvantage;
  no_deadline_before_ = now + limit;
  for (const auto& [name, entry] : pending_) {
    // Members may leave a process set as far apart as they like; nobody waits for it.
    if (entry.request.kind == Kind::kJoin ||
        (entry.request.kind == Kind::kShutdown && topology_.is_subset()))
      continue;
    no_deadline_before_ = std::min(no_deadline_before_, entry.submitted + limit);
    if (policy_.time_since(entry.submitted, now) < limit) continue;
    throw CommunicationError(
        fmt::format("{} was submitted {} ago and rank {} has not answered (HORO_TIMEOUT is {})",
                    quote_operation(name, topology_), format_duration(now - entry.submitted),
                    topology_.job_rank(0), format_duration(settings_.timeout)));
  }
}

// After a round: right on after work, naps while something is pending, sleep while nothing is.
Coordinator::Pause Coordinator::pause_after(bool did_work) {
  const Time now = std::chrono::steady_clock::now();
  if (did_work || !queue_.is_empty()) {
    last_work_ = now;
    return {};
  }
  if (should_stop_) {
    is_finished_ = true;
    end_all(std::make_exception_ptr(ShutdownError(kEnded)));
    return {};
  }
  const auto idle = now - last_work_;
  if (idle < policy_.spin) return {};
  if (negotiation_.is_holding_back()) {
    std::this_thread::yield();
    return {};
  }
  if (pending_.empty() && negotiation_.network().flush())
    return {Doorbell::Sleep::kDeep, kIdleInterval};
  if (idle < policy_.spin + policy_.yield) {
    std::this_thread::yield();
    return {};
  }
  if (!negotiation_.network().must_poll()) return {Doorbell::Sleep::kLight, kCheckInterval};
  return {Doorbell::Sleep::kLight, idle < 10ms ? std::chrono::nanoseconds(kShortNap) : kLongNap};
}

// The others should not have to find out by their own deadlines; the job's first failure is what
// all of them hear.
void Coordinator::give_up(const std::string& reason) noexcept {
  const bool is_aborted = policy_.abort != nullptr && policy_.abort->is_raised();
  const std::string text = is_aborted ? policy_.abort->text() : reason;
  flights_.fail(text);
  transport_.abort(text.c_str());
  try {
    negotiation_.spread_failure(text);
  } catch (const std::exception& error) {
    log_debug("could not tell the other ranks: {}", error.what());
  }
  is_finished_ = true;
  end_all(std::make_exception_ptr(CommunicationError(text)));
}

void Coordinator::end_all(const std::exception_ptr& error) {
  queue_.close(error);
  std::vector<Entry> entries = queue_.take();
  for (auto& [name, entry] : pending_) entries.push_back(std::move(entry));
  pending_.clear();
  complete(entries, error);
}

}  // namespace horo::coordinator
