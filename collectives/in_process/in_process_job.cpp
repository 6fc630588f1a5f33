#include "collectives/in_process/in_process_job.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <utility>

#include "collectives/collectives.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {

namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

// mmap() returns zeroed and page-aligned memory, as SharedRegion requires.
std::shared_ptr<std::span<std::byte>> map_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw SharedMemoryError(fmt::format("cannot map {} of shared memory: {}", format_bytes(bytes),
                                        std::strerror(errno)));
  return {new std::span<std::byte>(static_cast<std::byte*>(memory), bytes),
          [](std::span<std::byte>* span) {
            munmap(span->data(), span->size());
            delete span;
          }};
}

// Converts drop_messages_of to the number of that rank in the subset. Clears it if the rank is not
// a member.
InProcessJob::Options options_of_subset(InProcessJob::Options options,
                                        const std::vector<int>& members) {
  if (options.drop_messages_of) {
    const auto found = std::ranges::find(members, *options.drop_messages_of);
    options.drop_messages_of.reset();
    if (found != members.end())
      options.drop_messages_of = static_cast<int>(found - members.begin());
  }
  return options;
}

}  // namespace

InProcessHub::InProcessHub(int ranks, const InProcessJob::Options& options)
    : ranks_(ranks), options_(options), wait_(options.wait), random_state_(options.seed * 2 + 1) {
  // The hub owns the abort signal, and every transport holds a reference to the hub. A wait can
  // therefore read the signal even after the job object is destroyed.
  wait_.abort = &abort_;
}

InProcessHub::InProcessHub(std::shared_ptr<InProcessHub> parent, const std::vector<int>& members)
    : parent_(std::move(parent)),
      ranks_(static_cast<int>(members.size())),
      options_(options_of_subset(parent_->options_, members)),
      wait_(parent_->wait_),
      random_state_(options_.seed * 2 + 1) {}

// Copies the bytes, so a send is complete at once.
void InProcessHub::send(const Address& address, std::span<const std::byte> bytes) {
  if (options_.drop_messages_of == address.source) return;
  Held held{std::chrono::steady_clock::now(), {bytes.begin(), bytes.end()}};
  const std::scoped_lock lock(mutex_);
  if (options_.max_delay.count() > 0)
    held.due += std::chrono::microseconds(
        next_random(random_state_) % static_cast<std::uint64_t>(options_.max_delay.count() + 1));
  queues_[address].push_back(std::move(held));
}

// A message that is not yet due also delays later messages at the same address, so delays do not
// change the order.
std::optional<std::vector<std::byte>> InProcessHub::receive(const Address& address) {
  const std::scoped_lock lock(mutex_);
  const auto queue = queues_.find(address);
  if (queue == queues_.end() || queue->second.empty()) return std::nullopt;
  Held& oldest = queue->second.front();
  if (options_.max_delay.count() > 0 && oldest.due > std::chrono::steady_clock::now())
    return std::nullopt;
  std::vector<std::byte> bytes = std::move(oldest.bytes);
  queue->second.pop_front();
  return bytes;
}

// The hub holds weak pointers, so a region is unmapped when the last rank destroys its SharedRegion
// object.
std::shared_ptr<std::span<std::byte>> InProcessHub::region(int node, int index, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<std::span<std::byte>>& place = regions_[{node, index}];
  std::shared_ptr<std::span<std::byte>> region = place.lock();
  if (!region) place = region = map_memory(bytes);
  return region;
}

std::shared_ptr<InProcessHub> InProcessHub::subset(const std::shared_ptr<InProcessHub>& parent,
                                                   int index, const std::vector<int>& members) {
  const std::scoped_lock lock(parent->mutex_);
  std::erase_if(parent->subsets_,
                [&](const auto& entry) { return entry.first != index && entry.second.expired(); });
  std::weak_ptr<InProcessHub>& place = parent->subsets_[index];
  std::shared_ptr<InProcessHub> hub = place.lock();
  if (!hub) place = hub = std::make_shared<InProcessHub>(parent, members);
  return hub;
}

namespace {

using Hub = std::shared_ptr<InProcessHub>;

class InProcessPointToPoint : public PointToPoint {
 public:
  InProcessPointToPoint(Hub hub, int rank, int channel)
      : hub_(std::move(hub)), rank_(rank), channel_(channel) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->ranks(); }
  const WaitPolicy& default_wait_policy() const override { return hub_->wait_policy(); }

  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override {
    hub_->send({channel_, rank_, peer, tag}, bytes);
    return 0;  // the hub has a copy, so the send is complete
  }
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override {
    const InProcessHub::Address address{channel_, peer, rank_, tag};
    pending_[address].push_back({++last_ticket_, bytes});
    address_of_[last_ticket_] = address;
    return last_ticket_;
  }
  // Receives at one address complete in the order in which they were started. A call may therefore
  // complete earlier receives before the receive of `ticket`.
  bool test(Ticket ticket) override {
    const auto found = address_of_.find(ticket);
    if (found == address_of_.end()) return true;
    std::deque<Receive>& queue = pending_[found->second];
    while (!queue.empty()) {
      const auto message = hub_->receive(found->second);
      if (!message) return false;
      const Receive receive = queue.front();
      if (message->size() != receive.bytes.size())
        throw CommunicationError(fmt::format("rank {} sent {} bytes where rank {} expected {}",
                                             found->second.source, message->size(), rank_,
                                             receive.bytes.size()));
      if (!message->empty()) std::memcpy(receive.bytes.data(), message->data(), message->size());
      queue.pop_front();
      const bool is_ours = receive.ticket == ticket;
      if (is_ours) {
        address_of_.erase(found);
        return true;
      }
      address_of_.erase(receive.ticket);
    }
    return false;
  }

 private:
  struct Receive {
    Ticket ticket;
    std::span<std::byte> bytes;
  };
  Hub hub_;
  int rank_;
  int channel_;
  Ticket last_ticket_ = 0;
  std::map<InProcessHub::Address, std::deque<Receive>> pending_;
  std::unordered_map<Ticket, InProcessHub::Address> address_of_;
};

class InProcessMessageChannel : public MessageChannel {
 public:
  InProcessMessageChannel(Hub hub, int rank, int channel)
      : hub_(std::move(hub)), rank_(rank), channel_(channel) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->ranks(); }
  void send(int destination, std::span<const std::byte> bytes) override {
    hub_->send({channel_, rank_, destination, 0}, bytes);
  }
  // Prefers messages from lower ranks. Messages from one rank are returned in the order in which
  // they were sent.
  std::optional<Message> poll() override {
    for (int source = 0; source < hub_->ranks(); ++source)
      if (auto bytes = hub_->receive({channel_, source, rank_, 0}))
        return Message{source, std::move(*bytes)};
    return std::nullopt;
  }

 private:
  Hub hub_;
  int rank_;
  int channel_;
};

class InProcessRegion : public SharedRegion {
 public:
  explicit InProcessRegion(std::shared_ptr<std::span<std::byte>> memory)
      : memory_(std::move(memory)) {}
  std::span<std::byte> bytes() override { return *memory_; }

 private:
  std::shared_ptr<std::span<std::byte>> memory_;
};

// All ranks call the make_ functions in the same order. The counters of a transport therefore have
// the same values on all ranks, so equal numbers identify the same channel, region or subset.
class InProcessTransport : public Transport {
 public:
  InProcessTransport(Hub hub, int rank) : hub_(std::move(hub)) {
    std::vector<std::string> keys;
    std::vector<std::string> hosts;
    const std::size_t per_node = hub_->ranks_per_node() ? hub_->ranks_per_node() : hub_->ranks();
    for (int r = 0; r < hub_->ranks(); ++r) {
      keys.push_back(std::to_string(static_cast<std::size_t>(r) / per_node));
      hosts.push_back("thread-node-" + keys.back());
    }
    topology_ = make_topology(rank, keys, hosts);
  }
  InProcessTransport(Hub hub, Topology topology)
      : hub_(std::move(hub)), topology_(std::move(topology)) {}

  const Topology& topology() const override { return topology_; }
  const WaitPolicy& wait_policy() const override { return hub_->wait_policy(); }
  std::shared_ptr<AbortSignal> abort_signal() const override {
    return {hub_, &hub_->abort_signal()};
  }
  std::unique_ptr<PointToPoint> make_point_to_point() override {
    return std::make_unique<InProcessPointToPoint>(hub_, topology_.rank, next_channel_++);
  }
  std::unique_ptr<MessageChannel> make_message_channel() override {
    return std::make_unique<InProcessMessageChannel>(hub_, topology_.rank, next_channel_++);
  }
  std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) override {
    return std::make_unique<InProcessRegion>(hub_->region(topology_.node, next_region_++, bytes));
  }
  std::unique_ptr<Collectives> make_reference_collectives() override { return nullptr; }
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override {
    // Ranks that are not members also increment the counter, so that it stays equal on all ranks.
    const int index = next_subset_++;
    if (std::ranges::find(members, topology_.rank) == members.end()) return nullptr;
    return std::make_unique<InProcessTransport>(InProcessHub::subset(hub_, index, members),
                                                topology_.subset(members, number));
  }
  void abort(const char* text) noexcept override { hub_->abort_signal().raise(text); }

 private:
  Hub hub_;
  Topology topology_;
  int next_channel_ = 0;
  int next_region_ = 0;
  int next_subset_ = 0;
};

}  // namespace

InProcessJob::InProcessJob(int ranks, const Options& options)
    : hub_(std::make_shared<InProcessHub>(ranks, options)) {}
InProcessJob::~InProcessJob() = default;

std::unique_ptr<Transport> InProcessJob::transport(int rank) {
  return std::make_unique<InProcessTransport>(hub_, rank);
}

std::vector<std::exception_ptr> run_on_threads(
    int ranks, const InProcessJob::Options& options,
    const std::function<void(Transport&, int rank)>& function) {
  InProcessJob job(ranks, options);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto transport = job.transport(rank);
      try {
        function(*transport, rank);
      } catch (const std::exception&) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        transport->abort("another rank failed");
      }
    });
  threads.clear();  // joins them
  return errors;
}

}  // namespace horo::collectives
