#include "horo/coordinator/messages/messenger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 100ms;
// The sleep between two rounds after spinning and yielding: kShortNap at first, kLongNap after 10
// ms without work, and kClosingNap if this rank only answers the headers of peers.
constexpr auto kShortNap = 50us;
constexpr auto kLongNap = 1ms;
constexpr auto kClosingNap = 10ms;

}  // namespace

Messenger::Messenger(collectives::Transport& transport, const Settings& settings,
                     observe::FlightRecorder& recorder, observe::LongWaits* long_waits)
    : transport_(transport),
      topology_(transport.topology()),
      settings_(settings),
      recorder_(recorder),
      long_waits_(long_waits),
      policy_(transport.wait_policy()),
      notices_(transport.make_message_channel()),
      peers_(transport.make_point_to_point()) {}

Messenger::~Messenger() { end(make_shutdown_error()); }

std::shared_ptr<Completion> Messenger::submit(MessageEntry entry) {
  std::shared_ptr<Completion> completion = entry.completion;
  enqueue(std::move(entry));
  changed_.notify_all();
  return completion;
}

// The thread must exist even if this caller runs the rounds, because a call of another thread may
// be open when this caller returns.
void Messenger::enqueue(MessageEntry entry) {
  entry.flight = open_flight(entry);
  std::exception_ptr error;
  {
    const std::scoped_lock lock(mutex_);
    error = ended_with_ != nullptr ? ended_with_ : should_end_;
    if (error == nullptr && is_closing_) error = make_shutdown_error();
    if (error == nullptr) {
      if (entry.header.side == Side::kReceive) {
        int& receives = receives_from_[entry.peer];
        HORO_CHECK(receives < kMostReceives,
                   fmt::format("{}: {} receives from this rank are open; wait for some of them",
                               route_of(entry).describe(topology_), receives));
        ++receives;
      }
      submitted_.push_back(std::move(entry));
      if (!thread_.joinable())
        thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
      return;
    }
  }
  for (Completion::Callback& callback : entry.completion->complete(error))
    run_callback(std::move(callback), error);
}

void Messenger::perform(MessageEntry entry) {
  forbid_blocking_in_callbacks();
  const std::shared_ptr<Completion> completion = entry.completion;
  enqueue(std::move(entry));
  {
    std::unique_lock lock(mutex_);
    if (can_own()) {
      is_owned_ = true;
      lock.unlock();
      run_rounds(completion.get());
      release_rounds();
    }
  }
  if (!completion->is_done()) changed_.notify_all();
  completion->wait();
}

// Wakes other threads only if there is something for them to do, because a blocking call would
// otherwise cost a thread switch.
void Messenger::release_rounds() {
  bool has_more = false;
  {
    const std::scoped_lock lock(mutex_);
    is_owned_ = false;
    has_open_ = !open_.empty();
    has_more = has_open_ || is_closing_ || !submitted_.empty() || !due_callbacks_.empty() ||
               should_end_ != nullptr || ended_with_ != nullptr;
  }
  if (has_more) changed_.notify_all();
}

void Messenger::begin_closing() {
  {
    const std::scoped_lock lock(mutex_);
    if (is_closing_ || ended_with_ != nullptr || topology_.size == 1) return;
    is_closing_ = true;
    if (!thread_.joinable())
      thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
  }
  changed_.notify_all();
}

// Takes the rounds from their owner, which returns soon after should_end_ is set. The thread ends
// after it has run the callbacks.
void Messenger::end(const std::exception_ptr& error) {
  {
    std::unique_lock lock(mutex_);
    if (should_end_ == nullptr) should_end_ = error;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_owned_; });
    is_owned_ = true;
  }
  end_all(error);
  release_rounds();
  if (thread_.joinable()) thread_.join();
}

void Messenger::count(Counters& counters) const {
  counters.messages_sent += sent_;
  counters.messages_received += received_;
  counters.payload_bytes += bytes_;
}

void Messenger::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  std::unique_lock lock(mutex_);
  while (ended_with_ == nullptr) {
    changed_.wait(lock, [this] {
      return ended_with_ != nullptr || !due_callbacks_.empty() ||
             (can_own() && (has_open_ || is_closing_ || !submitted_.empty()));
    });
    const bool owns = can_own() && due_callbacks_.empty();
    is_owned_ |= owns;
    lock.unlock();
    if (owns) {
      run_rounds(nullptr);
      release_rounds();
    }
    run_callbacks();
    lock.lock();
  }
  lock.unlock();
  run_callbacks();
}

// A caller of perform() stops as soon as its call is complete. The thread stops when nothing is
// open. It runs callbacks between rounds, because only this thread runs them.
void Messenger::run_rounds(const Completion* until) {
  for (;;) {
    const bool did_work = run_round();
    if (until == nullptr) run_callbacks();
    {
      const std::scoped_lock lock(mutex_);
      if (should_end_ != nullptr || ended_with_ != nullptr) return;
      if (until != nullptr ? until->is_done() : open_.empty() && submitted_.empty() && !is_closing_)
        return;
    }
    nap(did_work);
  }
}

// After an error, the two ranks of a message may no longer have the same state, so the error ends
// the job.
bool Messenger::run_round() {
  try {
    const Time now = std::chrono::steady_clock::now();
    bool did_work = take_submitted();
    did_work |= read_notices();
    refuse_waiting_peers();
    did_work |= advance_copies();
    did_work |= advance_transfers();
    check_deadlines(now);
    return did_work;
  } catch (const std::exception& error) {
    give_up(error.what());
    return true;
  }
}

// Messages of other ranks end no sleep, so the owner polls for them.
void Messenger::nap(bool did_work) {
  const Time now = std::chrono::steady_clock::now();
  if (did_work) last_work_ = now;
  const auto idle = now - last_work_;
  if (idle < policy_.spin) return;
  if (idle < policy_.spin + policy_.yield) return std::this_thread::yield();
  std::chrono::nanoseconds duration = idle < 10ms ? std::chrono::nanoseconds(kShortNap) : kLongNap;
  if (open_.empty() && idle > 10ms) duration = kClosingNap;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration,
                    [this] { return !submitted_.empty() || should_end_ != nullptr; });
}

// Takes one call at a time, so that the calls after it stay in the queue if announce() throws.
bool Messenger::take_submitted() {
  for (bool has_any = false;; has_any = true) {
    MessageEntry entry;
    {
      const std::scoped_lock lock(mutex_);
      if (submitted_.empty()) return has_any;
      entry = std::move(submitted_.front());
      submitted_.pop_front();
    }
    announce(std::move(entry));
  }
}

// Does not send a header to a peer that has shut down, because no one would receive it. The call of
// this rank may nevertheless match a header that the peer sent before.
void Messenger::announce(MessageEntry entry) {
  const std::uint64_t number = ++last_number_;
  Open& open = open_.try_emplace(number).first->second;
  open.entry = std::move(entry);
  MessageHeader& header = open.entry.header;
  const int peer = open.entry.peer;
  if (header.side == Side::kReceive) {
    Tags& tags = tags_[peer];
    if (tags.free.empty()) tags.free.push_back(tags.next++);
    header.tag = tags.free.back();
    tags.free.pop_back();
  }
  const bool has_values = header.side == Side::kSend && is_inline(open.entry);
  if (!shut_down_peers_.contains(peer))
    notices_->send(peer, encode(header, {open.entry.data, has_values ? open.entry.bytes : 0}));
  if (const auto remote = table_.add_own(peer, header, number)) return match(number, *remote);
  if (shut_down_peers_.contains(peer)) fail_calls_to(peer);
}

bool Messenger::read_notices() {
  bool has_any = false;
  while (auto message = notices_->poll()) {
    has_any = true;
    Notice notice = decode_notice(message->bytes);
    if (!notice.header) {
      shut_down_peers_.insert(message->source);
      fail_calls_to(message->source);
      continue;
    }
    MessageTable::Remote remote{std::move(*notice.header), std::move(notice.values)};
    if (const auto number = table_.add_remote(message->source, remote)) match(*number, remote);
  }
  return has_any;
}

// One notice per peer is enough. It fails all calls of the peer that wait for this rank. Headers of
// this rank that the peer has not read yet come before the notice, because the channel keeps the
// order.
void Messenger::refuse_waiting_peers() {
  {
    const std::scoped_lock lock(mutex_);
    if (!is_closing_ || !submitted_.empty()) return;
  }
  for (const int peer : table_.waiting_peers())
    if (refused_peers_.insert(peer).second) notices_->send(peer, encode_shutdown());
}

void Messenger::fail_calls_to(int peer) {
  for (const std::uint64_t number : table_.remove_own(peer)) {
    const MessageEntry& entry = open_.at(number).entry;
    const std::string text =
        fmt::format("{}: {} has shut down without calling {}", route_of(entry).describe(topology_),
                    topology_.describe(peer), call_of(other_side(entry.header.side)));
    recorder_.note_error(text);
    complete(number, std::make_exception_ptr(ShutdownError(text)));
  }
}

// Throws CommunicationError if the job was aborted or a call has timed out. Notes calls that have
// waited for HORO_STALL_WARNING for the watchdog.
void Messenger::check_deadlines(Time now) {
  if (policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  for (const auto& [number, open] : open_) {
    const MessageEntry& entry = open.entry;
    const auto age = now - entry.submitted;
    if (age < std::min(settings_.stall_warning, settings_.timeout)) break;  // oldest first
    const std::string name = route_of(entry).describe(topology_);
    const std::string text = fmt::format(
        "{} has waited {} for {} to {}", name, format_duration(age), topology_.describe(entry.peer),
        open.is_matched ? std::string("transfer the values")
                        : fmt::format("call {}", call_of(other_side(entry.header.side))));
    if (policy_.has_timed_out(entry.submitted, now))
      throw CommunicationError(with_timeout(text, policy_.timeout));
    if (long_waits_ != nullptr) long_waits_->note(name, age, text, now);
  }
}

void Messenger::complete(std::uint64_t number, const std::exception_ptr& error) {
  auto node = open_.extract(number);
  MessageEntry& entry = node.mapped().entry;
  if (entry.header.side == Side::kReceive) tags_[entry.peer].free.push_back(entry.header.tag);
  finish_call(entry, error);
}

void Messenger::finish_call(MessageEntry& entry, const std::exception_ptr& error) {
  entry.staging.reset();  // the program may free the tensor as soon as the call is complete
  const std::string label = route_of(entry).label(topology_);
  if (error == nullptr) {
    entry.flight.finish(observe::flight_clock());
    ++(entry.header.side == Side::kSend ? sent_ : received_);
    bytes_ += entry.bytes;
  } else {
    const observe::OpenFlight closed = std::move(entry.flight);
  }
  if (entry.header.side == Side::kReceive) {
    const std::scoped_lock lock(mutex_);
    --receives_from_[entry.peer];
  }
  std::vector<Completion::Callback> callbacks = entry.completion->complete(error);
  if (callbacks.empty()) return;
  {
    const std::scoped_lock lock(mutex_);
    for (Completion::Callback& callback : callbacks)
      due_callbacks_.push_back({label, std::move(callback), error});
  }
  changed_.notify_all();
}

void Messenger::run_callbacks() {
  std::vector<DueCallback> due;
  {
    const std::scoped_lock lock(mutex_);
    due.swap(due_callbacks_);
  }
  for (DueCallback& each : due) {
    observe::FlightRecord record{};
    record.name = recorder_.name(each.operation);
    record.kind = static_cast<std::uint16_t>(recorder_.name(observe::kCallbackKind));
    record.lane = observe::kCoordinatorLane;
    record.submitted = observe::flight_clock();
    const observe::OpenFlight running = recorder_.open(record);
    run_callback(std::move(each.callback), each.error);
  }
}

// Raises the abort signal of the node. The coordinators of the node then notify the other nodes.
// Records the failure first, as Coordinator::give_up() does. If another rank has raised the signal
// meanwhile, all ranks throw the text of that rank.
void Messenger::give_up(const std::string& reason) noexcept {
  const bool is_aborted = policy_.abort != nullptr && policy_.abort->is_raised();
  const std::string text = is_aborted ? policy_.abort->text() : reason;
  recorder_.fail(text);
  transport_.abort(text.c_str());
  const bool has_text = policy_.abort != nullptr && policy_.abort->is_raised();
  end_all(std::make_exception_ptr(CommunicationError(has_text ? policy_.abort->text() : text)));
}

// Ends the transfers before the calls complete, because the program may free the tensors as soon as
// a call is complete.
void Messenger::end_all(const std::exception_ptr& error) {
  std::deque<MessageEntry> entries;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_with_ != nullptr) return;
    ended_with_ = error;
    entries.swap(submitted_);
  }
  transfers_.clear();
  filling_.clear();
  emptying_.clear();
  peers_.reset();
  for (auto& [number, open] : std::exchange(open_, {})) finish_call(open.entry, error);
  for (MessageEntry& entry : entries) finish_call(entry, error);
  changed_.notify_all();
}

MessageRoute Messenger::route_of(const MessageEntry& entry) const {
  const bool is_sender = entry.header.side == Side::kSend;
  return {entry.header.name, is_sender ? topology_.rank : entry.peer,
          is_sender ? entry.peer : topology_.rank};
}

// The record has the two ranks as its process set. A reader of the records then takes the peer, and
// no other rank, for missing.
observe::OpenFlight Messenger::open_flight(const MessageEntry& entry) {
  std::vector<int> pair = {topology_.job_rank(topology_.rank)};
  if (entry.peer != topology_.rank) pair.push_back(topology_.job_rank(entry.peer));
  std::ranges::sort(pair);
  observe::FlightRecord record{};
  record.process_set = static_cast<std::uint16_t>(recorder_.name(name_of_set(pair)));
  if (record.process_set != 0) record.name = recorder_.name(route_of(entry).label(topology_));
  record.kind = static_cast<std::uint16_t>(recorder_.name(
      entry.header.side == Side::kSend ? observe::kSendKind : observe::kReceiveKind));
  record.type = static_cast<std::uint8_t>(entry.header.type);
  record.lane = observe::kCoordinatorLane;
  record.bytes = entry.bytes;
  record.submitted = entry.submitted.time_since_epoch().count();
  return recorder_.open(record);
}

}  // namespace horo::coordinator
