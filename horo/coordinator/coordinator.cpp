#include "horo/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/coordinator/device_operation_queue.h"
#include "horo/coordinator/executor.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 100ms;  // between checks of deadlines while entries are pending
// Messages between nodes do not ring the doorbell, so the leader of a node polls for these
// messages. Between polls, the leader sleeps for kShortNap at first and for kLongNap later.
constexpr auto kShortNap = 50us;
constexpr auto kLongNap = 1ms;
// How much later the other ranks time out than rank 0. Rank 0 must report the error first, because
// only rank 0 knows which ranks of the job are missing.
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

// thread_ is the last member. Therefore the thread starts when all other members exist and is
// joined before the other members are destroyed. The owner of the rounds is thread_ or a caller of
// perform(). Only the owner sends control messages and runs collectives of named operations. Plans
// call MPI from other threads at the same time, so MPI must provide MPI_THREAD_MULTIPLE.
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

// Opens the flight record before the coordinator can see the entry, because the coordinator may
// complete the entry at once.
std::shared_ptr<Completion> Coordinator::submit(Entry entry) {
  std::shared_ptr<Completion> completion = entry.completion;
  flights_.open(entry);
  queue_.submit(std::move(entry));
  return completion;
}

// Runs rounds on the caller's thread if no other thread owns the rounds. A blocking operation then
// needs no wake-up of another thread. Stops when this operation is complete, even if other
// operations are pending, because the caller does not wait for the other operations.
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
  // before this caller acquired the rounds. Submissions of other threads did not wake that thread,
  // because this caller had announced Sleep::kNone. Therefore this caller rings after the release
  // if any operations remain.
  const bool is_idle = pending_.empty() && queue_.is_empty() && !is_finished_;
  doorbell().announce(is_idle ? Doorbell::Sleep::kDeep : Doorbell::Sleep::kLight);
  round_ownership_.release();
  if (!is_idle || !queue_.is_empty()) doorbell().ring();
  completion->wait();
}

// The shutdown is a named operation that every rank must submit, so the thread ends only when all
// ranks have submitted it or the job has failed. If the thread ended earlier, another rank could
// wait for a response that this rank no longer sends or forwards.
void Coordinator::shut_down() {
  Entry entry;
  entry.request.name = kShutdownName;
  entry.request.kind = Kind::kShutdown;
  submit(std::move(entry))->wait();
  if (thread_.joinable()) thread_.join();
}

// The owner of the rounds reads the flag at the start of its next round and calls give_up(). This
// function joins the thread, so give_up() has notified the other ranks when this function returns.
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

// Reads the doorbell before a round and waits on it afterwards, so a ring during the round is not
// lost. Runs queued callbacks without the ownership of the rounds, because user code may take a
// long time. Meanwhile, a caller of perform() can run rounds.
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
// is null, also returns after a round that did work, because callbacks may be due. The caller must
// own the rounds.
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

// No exception leaves a round. carry_out() handles errors that affect only one operation. Any other
// error ends the coordinator on all ranks, because the ranks may no longer run the same sequence of
// collectives.
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

// pending_ owns an entry from here until the response of the entry. The elements of an
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
// cannot block each other. InvalidArgument and MismatchError are thrown before or after the
// collective, so this rank may continue with the next response. Updates the cache after such an
// error too, because the other ranks update their caches.
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
    // The other ranks may still be inside the collective, so this rank must not start the next one.
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

// The device queue reports errors and the end of the work. For the coordinator, the operations are
// complete. The next response does not wait for the operations, and their names may be submitted
// again. Discards the open flight records. The queue opens new records later.
void Coordinator::enqueue_on_device(const Response& response, std::vector<Entry> entries) {
  operations_ += entries.size();
  note_agreed(response, entries);
  for (Entry& entry : entries) const observe::OpenFlight closed = std::move(entry.flight);
  DeviceOperationQueue& queue = entries.front().on_device->queue();
  complete(entries, nullptr);
  queue.add(response, std::move(entries), flights_.agreed());
}

// Updates the response cache, whose names and numbers must stay equal on all ranks. An absent rank
// has no entries, so it uses the requests in the response or in the cache.
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

// Returns the entries in the order of the response, which is equal on all ranks. The order of
// submission may differ between ranks. An absent rank has no entry and takes part with identity
// values.
std::vector<Entry> Coordinator::take_entries(const Response& response) {
  std::vector<std::unordered_map<std::string, Entry>::iterator> found;
  for (const Response::Tensor& tensor : response.tensors) {
    const std::string& name = name_of(tensor);
    const auto entry = pending_.find(name);
    if (entry != pending_.end())
      found.push_back(entry);
    else if (response.error == ErrorKind::kNone &&
             !std::ranges::binary_search(response.absent, topology_.rank))
      // An error response may be about an operation that this rank has not submitted.
      throw CommunicationError(
          fmt::format("rank {} sent a response for {}, which is not pending here",
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
// submit the same name at once. Only queues the callbacks, because this thread owns the rounds. The
// locks of the queue, the completion and the callbacks are taken one after another.
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
  // wait_for_change(). Both sleeps must end.
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

// Also checks the abort signal. On the root, StallWatch reports missing ranks and timeouts. The
// other ranks only check that the root responds, and use a later deadline.
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
    // A join lasts as long as other ranks have data, and members may close a process set at
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

// After work, the next round follows at once. Without work, the owner ends the coordinator if it
// must stop. Otherwise the owner first spins. Then the owner yields while the negotiator holds back
// responses. Then the owner sleeps deeply if no entry is pending and no message waits for space.
// Otherwise the owner yields for a short time and then sleeps lightly.
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

// Notifies the other ranks, so that they do not wait until they time out. If the job has been
// aborted already, this rank reports the text of that abort, because the first failure is the
// cause. Records the failure before it raises the abort signal. In the reverse order, the flight
// recorder would record the failure as a consequence of another rank's failure.
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

// Closes the queue before take_all(), so no entry is added after take_all().
void Coordinator::end_all(const std::exception_ptr& error) {
  queue_.close(error);
  std::vector<Entry> entries = queue_.take_all();
  for (auto& [name, entry] : pending_) entries.push_back(std::move(entry));
  pending_.clear();
  complete(entries, error);
}

}  // namespace horo::coordinator
