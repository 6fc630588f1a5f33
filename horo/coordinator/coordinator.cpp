#include "horo/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "horo/coordinator/device_operation_queue.h"
#include "horo/coordinator/executor.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

// The minimum time between two checks of deadlines, and the maximum duration of a light sleep.
constexpr auto kCheckInterval = 100ms;
// Messages between nodes do not ring the doorbell. Therefore the leader of a node polls for these
// messages while an entry is pending. After spinning and yielding, the leader sleeps between two
// polls. The sleep lasts kShortNap at first and kLongNap after 10 ms without work.
constexpr auto kShortNap = 50us;
constexpr auto kLongNap = 1ms;
// The other ranks time out this much later than rank 0, so that rank 0 reports the error first.
// Only rank 0 receives reports about all missing ranks.
constexpr auto kLeaderAdvantage = 2s;

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

// thread_ is the last member. Therefore the thread starts after the construction of all other
// members and is joined before their destruction. Only the owner of the rounds sends control
// messages and runs collectives with communicator_. Plans and the coordinators of process sets use
// MPI on other threads at the same time, so MPI must provide MPI_THREAD_MULTIPLE.
Coordinator::Coordinator(collectives::Transport& transport, const Settings& settings,
                         const collectives::AllreduceSelection& allreduce,
                         observe::FlightRecorder& recorder, std::chrono::nanoseconds idle_interval,
                         observe::LongWaits* long_waits)
    : transport_(transport),
      topology_(transport.topology()),
      idle_interval_(idle_interval),
      policy_(transport.wait_policy()),
      negotiator_(transport, settings, long_waits),
      communicator_(transport, settings, allreduce, policy_, policy_),
      flights_(recorder, topology_.set_name()),
      queue_(doorbell()),
      thread_([this, label = log_label()] { run_thread(label); }) {}

Coordinator::~Coordinator() {
  should_stop_ = true;
  doorbell().ring();
}

// Opens the flight record before the entry is in the queue. From then on, another thread may
// complete the entry.
std::shared_ptr<Completion> Coordinator::submit(Entry entry) {
  std::shared_ptr<Completion> completion = entry.completion;
  flights_.open(entry);
  queue_.submit(std::move(entry));
  return completion;
}

// Stops running rounds when this operation is complete, even if other operations are pending,
// because the caller does not wait for the other operations.
void Coordinator::perform(Entry entry) {
  forbid_blocking_in_callbacks();
  const std::shared_ptr<Completion> completion = entry.completion;
  flights_.open(entry);
  queue_.submit_quietly(std::move(entry));
  if (!round_ownership_.try_acquire()) {
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
  // The coordinator's thread runs the remaining operations. That thread may have been asleep since
  // before this caller acquired the rounds. Submissions of other threads do not wake that thread
  // while this caller announces Sleep::kNone. Therefore this caller rings after the release if
  // operations remain or the coordinator has ended.
  const bool is_idle = pending_.empty() && queue_.is_empty() && !is_finished_;
  doorbell().announce(is_idle ? Doorbell::Sleep::kDeep : Doorbell::Sleep::kLight);
  round_ownership_.release();
  if (!is_idle || !queue_.is_empty()) doorbell().ring();
  completion->wait();
}

// The shutdown is a named operation. Its response ends the thread, after all ranks have submitted
// their shutdown. If the thread ended earlier, another rank could wait for a response that this
// rank no longer sends or forwards.
void Coordinator::shut_down() {
  Entry entry;
  entry.request.name = kShutdownName;
  entry.request.kind = Kind::kShutdown;
  submit(std::move(entry))->wait();
  if (thread_.joinable()) thread_.join();
}

// Unless the coordinator has ended, the owner of the rounds reads should_fail_ at the start of its
// next round and calls give_up(). That call notifies the other ranks and ends the coordinator. The
// thread ends afterwards, so this function returns after the notification.
void Coordinator::fail(const std::string& text) noexcept {
  failure_ = text;
  should_fail_ = true;
  doorbell().ring();
  if (thread_.joinable()) thread_.join();
}

Counters Coordinator::counters() const {
  const ControlNetwork& network = negotiator_.network();
  Counters counters;
  counters.node_messages_sent = network.in_node().messages;
  counters.node_bytes_sent = network.in_node().bytes;
  counters.control_messages_sent = counters.node_messages_sent + network.between_nodes().messages;
  counters.control_bytes_sent = counters.node_bytes_sent + network.between_nodes().bytes;
  counters.collectives = collectives_;
  counters.tensors = tensors_;
  counters.payload_bytes = payload_bytes_;
  return counters;
}

// Reads doorbell().rings() before the rounds and passes the number to wait(). So a ring during the
// rounds makes wait() return at once. Runs queued callbacks without the ownership of the rounds,
// because user code may take a long time. Meanwhile, a caller of perform() can run rounds.
void Coordinator::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  for (bool is_finished = false; !is_finished;) {
    const std::uint32_t changes = round_ownership_.changes();
    if (!round_ownership_.try_acquire()) {
      if (!run_callbacks()) round_ownership_.wait_for_change(changes, idle_interval_);
      continue;
    }
    doorbell().announce(Doorbell::Sleep::kNone);
    const std::uint32_t seen = doorbell().rings();
    const Pause pause = run_rounds(nullptr);
    is_finished = is_finished_;
    doorbell().announce(pause.sleep);
    round_ownership_.release();
    const bool did_more = run_callbacks();
    if (!is_finished && !did_more && pause.duration.count() > 0)
      doorbell().wait(seen, pause.duration);
  }
}

// Runs rounds until the owner must sleep, `until` is done, or the coordinator has ended. If `until`
// is null, also returns after a round that did work, because callbacks may be due. Returns how the
// owner must sleep. The caller must own the rounds.
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

// Returns whether the round did any work. carry_out() handles errors that affect only the
// operations of one response. After any other error, the ranks may no longer run the same sequence
// of collectives, so the function ends the coordinator with give_up().
bool Coordinator::run_round() {
  try {
    if (should_fail_) throw CommunicationError(failure_);
    const Time now = std::chrono::steady_clock::now();
    bool did_work = announce(now);
    check_deadlines(now);
    while (!is_finished_) {
      const std::optional<ResponseMessage> message = negotiator_.next(now);
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

// pending_ owns an entry until its response arrives or the coordinator ends. The elements of an
// unordered_map do not move, so the pointers to the requests stay valid.
bool Coordinator::announce(Time now) {
  std::vector<Entry> entries = queue_.take_all();
  if (entries.empty()) return false;
  std::vector<const Request*> requests;
  for (Entry& entry : entries) {
    std::string name = entry.request.name;
    const auto place = pending_.emplace(std::move(name), std::move(entry)).first;
    requests.push_back(&place->second.request);
  }
  negotiator_.submit(requests, operations_, now);
  return true;
}

// Every rank executes the same responses in the same order, so collectives of different operations
// cannot block each other. If execute() throws InvalidArgument or MismatchError, this rank is still
// at the same position in the sequence of collectives as the other ranks. Therefore this rank
// continues with the next response. Updates the cache after such an error too, because the other
// ranks update their caches.
void Coordinator::carry_out(const Response& response) {
  std::vector<Entry> entries = take_entries(response);
  if (response.error != ErrorKind::kNone) {
    flights_.note_error(response.error_text);
    return complete(entries, to_exception(response.error, response.error_text));
  }
  if (!entries.empty() && entries.front().on_device != nullptr)
    return enqueue_on_device(response, std::move(entries));
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
    // The other ranks may still be inside the collective, so this rank must not start another
    // collective. The caller ends the coordinator.
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
    end_all(make_shutdown_error());
  }
  complete(entries, error);
}

// Completes the operations before the device runs them. Therefore the next response does not wait
// for them, and their names may be submitted again. DeviceOperationQueue reports the end of the
// work and errors of the device. Discards the open flight records, because the queue opens new
// records when the device begins the work. If the devices cannot be connected, all ranks get the
// same DeviceError, so this rank continues with the next response.
void Coordinator::enqueue_on_device(const Response& response, std::vector<Entry> entries) {
  operations_ += entries.size();
  note_agreed(response, entries);
  DeviceOperationQueue& queue = entries.front().on_device->queue();
  try {
    queue.connect(communicator_.collectives());
  } catch (const DeviceError& error) {
    flights_.note_error(error.what());
    return complete(entries, std::current_exception());
  }
  for (Entry& entry : entries) const observe::OpenFlight closed = std::move(entry.flight);
  complete(entries, nullptr);
  queue.add(response, std::move(entries), flights_.agreed());
}

// Updates the response cache, whose names and numbers must stay equal on all ranks. An absent rank
// has no entries. For an absent rank, uses the requests in the response or in the cache.
void Coordinator::note_agreed(const Response& response, const std::vector<Entry>& entries) {
  if (!is_cacheable(response.kind)) return;
  ResponseCache& cache = negotiator_.cache();
  const std::uint64_t message = negotiator_.responses_seen();
  if (!entries.empty()) {
    for (const Entry& entry : entries) cache.note(entry.request, response.rows_of, message);
    return;
  }
  for (const Response::Tensor& tensor : response.tensors)
    cache.note(tensor.description(), response.rows_of, message);
}

// Removes the entries of a response from pending_ and returns them in the order of the response,
// which is equal on all ranks. Throws CommunicationError if an entry is missing, with two
// exceptions. An absent rank has no entries. For an error response, an entry may be missing,
// because this rank may not have submitted the operation.
std::vector<Entry> Coordinator::take_entries(const Response& response) {
  std::vector<std::unordered_map<std::string, Entry>::iterator> found;
  for (const Response::Tensor& tensor : response.tensors) {
    const std::string& name = name_of(tensor);
    const auto entry = pending_.find(name);
    if (entry != pending_.end())
      found.push_back(entry);
    else if (response.error == ErrorKind::kNone &&
             !std::ranges::binary_search(response.absent, topology_.rank))
      throw CommunicationError(
          fmt::format("rank {} sent a response for {}, which is not pending on this rank",
                      topology_.job_rank(0), quote_operation(name, topology_)));
  }
  std::vector<Entry> entries;
  for (const auto& entry : found) {
    entries.push_back(std::move(entry->second));
    pending_.erase(entry);
  }
  return entries;
}

// Releases the names before it sets the completion, because a thread that wakes up from wait() may
// submit the same name at once. Queues the callbacks instead of running them, because they may take
// a long time and this thread owns the rounds. Never holds two of the mutexes of queue_, of the
// completion and of the callbacks at the same time.
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
  // The coordinator's thread runs the callbacks. That thread may sleep on the doorbell or in
  // RoundOwnership::wait_for_change(). ring() alone would not end a sleep on the doorbell if the
  // owner of the rounds has announced Sleep::kNone.
  doorbell().ring();
  doorbell().wake();
  round_ownership_.wake();
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

// Throws CommunicationError if the job was aborted. At most once per kCheckInterval, also looks for
// stalls and timeouts. On rank 0, look_for_stalls() detects operations that have timed out. On
// every other rank, this function throws CommunicationError if rank 0 does not respond to an entry
// in time. The time is kLeaderAdvantage longer than on rank 0.
void Coordinator::check_deadlines(Time now) {
  if (policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  negotiator_.look_for_stalls(now);
  if (topology_.rank == 0 || now < no_deadline_before_) return;
  WaitPolicy of_answer = policy_;
  of_answer.grace += kLeaderAdvantage;
  no_deadline_before_ = now + of_answer.limit();
  for (const auto& [name, entry] : pending_) {
    // A join lasts as long as other ranks have data. The members of a process set may close it at
    // different times. Therefore a join and the shutdown of a process set have no deadline here.
    if (entry.request.kind == Kind::kJoin ||
        (entry.request.kind == Kind::kShutdown && topology_.is_subset()))
      continue;
    no_deadline_before_ = std::min(no_deadline_before_, entry.submitted + of_answer.limit());
    if (!of_answer.has_timed_out(entry.submitted, now)) continue;
    throw CommunicationError(
        with_timeout(fmt::format("{} was submitted {} ago, but rank {} has not responded",
                                 quote_operation(name, topology_),
                                 format_duration(now - entry.submitted), topology_.job_rank(0)),
                     of_answer.timeout));
  }
}

// Determines how the owner of the rounds sleeps after a round. Checks these cases in order:
// - The round did work, or the queue has new entries: does not sleep.
// - The destructor has been called: ends the coordinator.
// - The time for spinning (WaitPolicy::spin) has not passed: does not sleep.
// - The negotiator holds back responses: yields the core and does not sleep.
// - No entry is pending, and no message waits for space in shared memory: sleeps deeply.
// - The time for yielding (WaitPolicy::yield) has not passed: yields the core and does not sleep.
// - All other cases: sleeps lightly, for a shorter time if this rank must poll.
Coordinator::Pause Coordinator::pause_after(bool did_work) {
  const Time now = std::chrono::steady_clock::now();
  if (did_work || !queue_.is_empty()) {
    last_work_ = now;
    return {};
  }
  if (should_stop_) {
    is_finished_ = true;
    end_all(make_shutdown_error());
    return {};
  }
  const auto idle = now - last_work_;
  if (idle < policy_.spin) return {};
  if (negotiator_.is_holding_back()) {
    std::this_thread::yield();
    return {};
  }
  if (pending_.empty() && negotiator_.network().flush())
    return {Doorbell::Sleep::kDeep, idle_interval_};
  if (idle < policy_.spin + policy_.yield) {
    std::this_thread::yield();
    return {};
  }
  if (!negotiator_.network().must_poll()) return {Doorbell::Sleep::kLight, kCheckInterval};
  return {Doorbell::Sleep::kLight, idle < 10ms ? std::chrono::nanoseconds(kShortNap) : kLongNap};
}

// Ends the coordinator and notifies the other ranks, so that they do not wait until they time out.
// If the job was aborted before, uses the text of that abort, because that failure came first.
// Records the failure before it raises the abort signal. In the reverse order, the flight recorder
// would record the failure as a consequence of another rank's failure.
void Coordinator::give_up(const std::string& reason) noexcept {
  const bool is_aborted = policy_.abort != nullptr && policy_.abort->is_raised();
  const std::string text = is_aborted ? policy_.abort->text() : reason;
  flights_.fail(text);
  transport_.abort(text.c_str());
  try {
    negotiator_.spread_failure(text);
  } catch (const std::exception& error) {
    log_debug("could not notify the other ranks: {}", error.what());
  }
  is_finished_ = true;
  end_all(std::make_exception_ptr(CommunicationError(text)));
}

// Completes all entries of this rank with `error`. Closes the queue before take_all(), so no entry
// is added after take_all().
void Coordinator::end_all(const std::exception_ptr& error) {
  queue_.close(error);
  std::vector<Entry> entries = queue_.take_all();
  for (auto& [name, entry] : pending_) entries.push_back(std::move(entry));
  pending_.clear();
  complete(entries, error);
}

}  // namespace horo::coordinator
