#include "collectives/in_process/in_process_hub.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

std::shared_ptr<std::span<std::byte>> map_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw CommunicationError("out of memory for a shared region");
  return {new std::span<std::byte>(static_cast<std::byte*>(memory), bytes),
          [](std::span<std::byte>* span) {
            munmap(span->data(), span->size());
            delete span;
          }};
}

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
  wait_.abort = &abort_;
}

InProcessHub::InProcessHub(std::shared_ptr<InProcessHub> parent, const std::vector<int>& members)
    : parent_(std::move(parent)),
      ranks_(static_cast<int>(members.size())),
      options_(options_of_subset(parent_->options_, members)),
      wait_(parent_->wait_),
      random_state_(options_.seed * 2 + 1) {}

void InProcessHub::send(const Address& address, std::span<const std::byte> bytes) {
  if (options_.drop_messages_of == address.source) return;
  Held held{std::chrono::steady_clock::now(), {bytes.begin(), bytes.end()}};
  const std::scoped_lock lock(mutex_);
  if (options_.max_delay.count() > 0)
    held.due += std::chrono::microseconds(
        next_random(random_state_) % static_cast<std::uint64_t>(options_.max_delay.count() + 1));
  queues_[address].push_back(std::move(held));
}

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

}  // namespace horo::collectives
