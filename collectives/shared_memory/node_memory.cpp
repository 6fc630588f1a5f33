#include "collectives/shared_memory/node_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/chunks.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "horo/base/wait.h"

namespace horo::collectives {

namespace {

// Counts this rank as a sleeper on the flag from announce() until the end of the wait. publish()
// makes the system call that wakes sleepers only if the number of sleepers is not 0.
struct Sleeper {
  explicit Sleeper(std::atomic<std::uint32_t>& counter) : count(counter) {}
  ~Sleeper() {
    if (is_counted) count.fetch_sub(1);
  }
  void announce() {
    if (!is_counted) count.fetch_add(1);
    is_counted = true;
  }
  std::atomic<std::uint32_t>& count;
  bool is_counted = false;
};

}  // namespace

bool Flag::wait(std::uint32_t target, const Flag& departed, const WaitPolicy& policy,
                std::string_view what) {
  Waiter waiter(policy);
  Sleeper sleeper(sleepers);
  while (true) {
    const std::uint32_t seen = value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - target) >= 0) return true;
    // The rank may have published the target before it departed. The acquire load of `departed`
    // makes all earlier writes of that rank visible, so this second check of the target is final.
    if (departed.reached(1)) return reached(target);
    if (waiter.is_napping()) sleeper.announce();
    waiter.pause_on(value, seen, what);
  }
}

namespace {

constexpr std::size_t kPage = 4096;

// In a step, the part of each rank has at least one cache line.
constexpr std::size_t whole_step(std::size_t step_bytes, int ranks) {
  return round_up(std::max(step_bytes, static_cast<std::size_t>(ranks) * kCacheLineBytes), kPage);
}
constexpr std::size_t place_for(std::size_t bytes) {
  return std::max(round_up(bytes, kCacheLineBytes), kCacheLineBytes);
}
constexpr std::size_t slot_for(std::size_t whole_step, int ranks) {
  const std::size_t share = NodeMemory::kSlotBytesOfAllRanks / static_cast<std::size_t>(ranks);
  return std::max(whole_step + kPage, std::min(NodeMemory::kMostSlotBytes, round_up(share, kPage)));
}

}  // namespace

std::size_t NodeMemory::bytes_of_rank(std::size_t slot_bytes, std::size_t direct_bytes) {
  return kPage + 2 * round_up(direct_bytes, kPage) + kSlots * slot_bytes;
}

std::size_t NodeMemory::bytes_needed(int ranks, std::size_t step_bytes, std::size_t direct_bytes) {
  static_assert(sizeof(RankFlags) <= kPage);
  return static_cast<std::size_t>(ranks) *
         bytes_of_rank(slot_for(whole_step(step_bytes, ranks), ranks), direct_bytes);
}

NodeMemory::NodeMemory(std::unique_ptr<SharedRegion> region, int rank,
                       std::vector<std::string> rank_names, std::size_t step_bytes,
                       std::size_t direct_bytes, const WaitPolicy& policy)
    : region_(std::move(region)),
      rank_(rank),
      size_(static_cast<int>(rank_names.size())),
      step_bytes_(whole_step(step_bytes, size_)),
      slot_bytes_(slot_for(step_bytes_, size_)),
      direct_bytes_(round_up(direct_bytes, kPage)),
      policy_(policy) {
  HORO_CHECK(
      region_->bytes().size() >= bytes_needed(size_, step_bytes, direct_bytes),
      fmt::format("the shared region has {} bytes; {} ranks require {}", region_->bytes().size(),
                  size_, bytes_needed(size_, step_bytes, direct_bytes)));
  std::byte* at = region_->bytes().data();
  for (std::string& name : rank_names) {
    RankMemory memory;
    // The region is zeroed, and zero bytes are a valid Flag. Constructing the flags here could
    // reset what a faster rank has already published.
    memory.flags = reinterpret_cast<RankFlags*>(at);
    memory.direct = at + kPage;
    memory.slots = memory.direct + 2 * direct_bytes_;
    memory.name = std::move(name);
    ranks_.push_back(std::move(memory));
    at += bytes_of_rank(slot_bytes_, direct_bytes);
  }
}

NodeMemory::~NodeMemory() {
  Flag& departed = ranks_[rank_].flags->departed;
  if (std::uncaught_exceptions() <= exceptions_at_start_ && !departed.reached(1))
    departed.publish(1 + static_cast<std::uint32_t>(rank_));
}

std::uint32_t NodeMemory::begin_steps(std::uint32_t count, std::size_t bytes) {
  HORO_CHECK(bytes <= step_bytes_ + kCacheLineBytes,
             fmt::format("a step of {} bytes exceeds the maximum of {}", bytes,
                         step_bytes_ + kCacheLineBytes));
  place_bytes_ = place_for(bytes);
  places_ = static_cast<std::uint32_t>(slot_bytes_ / place_bytes_);
  const std::uint32_t first = next_step_;
  next_step_ += count;
  return first;
}

// A slot has room for one or more steps of this size. Successive steps in the slot use these places
// in turn.
std::uint32_t NodeMemory::steps_in_all_slots(std::size_t bytes) const {
  return kSlots * static_cast<std::uint32_t>(slot_bytes_ / place_for(bytes));
}

void NodeMemory::start_at(std::uint32_t number) {
  HORO_CHECK(number % kSlots == 0,
             fmt::format("first step number {} is not a multiple of {}", number, kSlots));
  next_step_ = direct_ = number;
  RankFlags& flags = *ranks_[rank_].flags;
  for (Flag* flag : {&flags.posted, &flags.reduced, &flags.consumed}) flag->publish(number);
  // The two direct flags have the numbers of the two latest exchanges.
  for (const std::uint32_t latest : {number - 1, number})
    direct_flag(rank_, latest).publish(latest);
}

// The flags order all accesses to the slots, so the slots need no atomic accesses. A rank writes
// its slot before the release store in publish(), and other ranks read the slot after the acquire
// load in reached(). In the same way, `consumed` orders these reads before the next write of the
// slot.
void NodeMemory::wait(Flag& flag, std::uint32_t target, int peer, std::string_view purpose) {
  WhileWaiting::work_once();  // most waits end before Waiter calls work_once()
  if (flag.reached(target)) return;
  if (!flag.wait(target, ranks_[peer].flags->departed, policy_,
                 fmt::format("for {} to {}", ranks_[peer].name, purpose)))
    end_without(peer);
}

// `peer` has departed, so this rank cannot complete the collective. If `peer` departed first and
// the abort signal is raised, the text of the signal names the cause. Otherwise, this rank
// publishes the rank that departed first in its own flag. The ranks that wait for this rank then
// also fail, and name the same rank.
void NodeMemory::end_without(int peer) {
  const std::uint32_t word = ranks_[peer].flags->departed.value.load(std::memory_order_acquire);
  const auto first = static_cast<int>(word - 1);
  if (first == peer && policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  ranks_[rank_].flags->departed.publish(word);
  throw ShutdownError(fmt::format("{} has left", ranks_[first].name));
}

// Step g uses the same slots as step g - kSlots, so all peers must have consumed step g - kSlots.
// Only one step at a time uses a slot, so begin_steps() may divide the slots differently for each
// collective.
void NodeMemory::wait_free(std::uint32_t step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    wait(ranks_[peer].flags->consumed, step - kSlots + 1, peer, "enter a collective");
  }
}

void NodeMemory::wait_posted(int peer, std::uint32_t step) {
  wait(ranks_[peer].flags->posted, step + 1, peer, "post its input for a collective");
}

void NodeMemory::wait_reduced(int peer, std::uint32_t step) {
  wait(ranks_[peer].flags->reduced, step + 1, peer, "finish its part of a collective");
}

void NodeMemory::finish(std::uint32_t step) {
  RankFlags& flags = *ranks_[rank_].flags;
  for (Flag* flag : {&flags.posted, &flags.reduced, &flags.consumed})
    if (!flag->reached(step + 1)) flag->publish(step + 1);
}

// Values that fit into inline_bytes are stored next to the value of the flag. A reader can then get
// both with one transfer of a cache line.
std::byte* NodeMemory::direct_buffer(int rank, std::uint32_t exchange, std::size_t bytes) const {
  if (bytes <= Flag::kInlineBytes) return direct_flag(rank, exchange).inline_bytes;
  return ranks_[rank].direct + (exchange % 2) * direct_bytes_;
}

void NodeMemory::wait_direct(int peer, std::uint32_t exchange) {
  wait(direct_flag(peer, exchange), exchange, peer, "enter a collective");
}

}  // namespace horo::collectives
