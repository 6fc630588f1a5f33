#include "collectives/shared_memory/node_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "horo/base/while_waiting.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Every rank's part of a step is at least a cache line.
constexpr std::size_t whole_step(std::size_t step_bytes, int ranks) {
  return round_up(std::max(step_bytes, static_cast<std::size_t>(ranks) * kLine), kPage);
}
constexpr std::size_t place_for(std::size_t bytes) {
  return std::max(round_up(bytes, kLine), kLine);
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
  HORO_CHECK(region_->bytes().size() >= bytes_needed(size_, step_bytes, direct_bytes), "");
  std::byte* at = region_->bytes().data();
  for (std::string& name : rank_names) {
    RankMemory memory;
    // Zero bytes are a valid Flag: the region is used as it comes, so that no rank's constructor
    // can reset what a faster rank has already published.
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
  HORO_CHECK(bytes <= step_bytes_ + kLine, "");
  place_bytes_ = place_for(bytes);
  places_ = static_cast<std::uint32_t>(slot_bytes_ / place_bytes_);
  const std::uint32_t first = next_step_;
  next_step_ += count;
  return first;
}

std::uint32_t NodeMemory::steps_in_all_slots(std::size_t bytes) const {
  return kSlots * static_cast<std::uint32_t>(slot_bytes_ / place_for(bytes));
}

void NodeMemory::start_at(std::uint32_t number) {
  HORO_CHECK(number % kSlots == 0, "");
  next_step_ = direct_ = number;
  RankFlags& flags = *ranks_[rank_].flags;
  for (Flag* flag : {&flags.posted, &flags.reduced, &flags.consumed}) flag->publish(number);
  for (const std::uint32_t latest : {number - 1, number})
    direct_flag(rank_, latest).publish(latest);
}

void NodeMemory::wait(Flag& flag, std::uint32_t target, int peer, std::string_view purpose) {
  WhileWaiting::work_once();  // in the steady state no wait lasts
  if (flag.reached(target)) return;
  if (!flag.wait(target, ranks_[peer].flags->departed, policy_,
                 fmt::format("for {} to {}", ranks_[peer].name, purpose)))
    end_without(peer);
}

// Nor does this rank come to the end of a step without `peer`: whoever waits for it is told at
// once, and of the rank that was the first, not of this one.
void NodeMemory::end_without(int peer) {
  const std::uint32_t word = ranks_[peer].flags->departed.value.load(std::memory_order_acquire);
  const auto first = static_cast<int>(word - 1);
  if (first == peer && policy_.abort != nullptr && policy_.abort->is_raised())
    throw CommunicationError(policy_.abort->text());
  ranks_[rank_].flags->departed.publish(word);
  throw ShutdownError(fmt::format("{} has left", ranks_[first].name));
}

void NodeMemory::wait_free(std::uint32_t step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    wait(ranks_[peer].flags->consumed, step - kSlots + 1, peer, "take part in a collective");
  }
}

void NodeMemory::wait_posted(int peer, std::uint32_t step) {
  wait(ranks_[peer].flags->posted, step + 1, peer, "bring its values to a collective");
}

void NodeMemory::wait_reduced(int peer, std::uint32_t step) {
  wait(ranks_[peer].flags->reduced, step + 1, peer, "finish its part of a collective");
}

void NodeMemory::finish(std::uint32_t step) {
  RankFlags& flags = *ranks_[rank_].flags;
  for (Flag* flag : {&flags.posted, &flags.reduced, &flags.consumed})
    if (!flag->reached(step + 1)) flag->publish(step + 1);
}

std::byte* NodeMemory::direct_buffer(int rank, std::uint32_t exchange, std::size_t bytes) const {
  if (bytes <= Flag::kInlineBytes) return direct_flag(rank, exchange).inline_bytes;
  return ranks_[rank].direct + (exchange % 2) * direct_bytes_;
}

void NodeMemory::wait_direct(int peer, std::uint32_t exchange) {
  wait(direct_flag(peer, exchange), exchange, peer, "take part in a collective");
}

}  // namespace horo::collectives
