#include "collectives/shared_memory/store_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "collectives/reduce/kernels.h"
#include "collectives/shared_memory/direct_allreduce.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kProbeBytes = 64 * 1024;
constexpr std::uint32_t kRounds = 4;  // the first warms up

void barrier(NodeMemory& memory) {
  const std::uint32_t exchange = memory.begin_direct();
  memory.post_direct(exchange);
  for (int peer = 0; peer < memory.size(); ++peer) memory.wait_direct(peer, exchange);
}

}  // namespace

double probe_cache_to_cache_bandwidth(NodeMemory& memory) {
  const std::size_t bytes = std::min(kProbeBytes, memory.slot_bytes());
  const std::uint32_t first_step = memory.begin_steps(kRounds);
  const int next = (memory.rank() + 1) % memory.size();
  std::vector<std::byte> sink(bytes);
  auto fastest = std::chrono::steady_clock::duration::max();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const std::uint32_t step = first_step + round;
    memory.wait_free(step);
    std::memset(memory.slot(memory.rank(), step), static_cast<int>(round + 1), bytes);
    memory.post(step);
    memory.wait_posted(next, step);
    const auto start = std::chrono::steady_clock::now();
    copy(sink.data(), memory.slot(next, step), bytes, Stores::kPlain);
    const auto took = std::chrono::steady_clock::now() - start;
    if (round > 0) fastest = std::min(fastest, took);
    // Reading must not overlap with the others' writing of the next round.
    barrier(memory);
    memory.finish(step);
  }
  double bandwidth = static_cast<double>(bytes) / std::chrono::duration<double>(fastest).count();
  std::vector<std::byte> scratch;
  ScatteredBuffer buffer(DataType::kFloat64, &bandwidth, 1);
  direct_allreduce(memory, buffer, ReduceOp::kMin, Stores::kPlain, scratch);
  return bandwidth;
}

Stores StoreChooser::choose(NodeMemory& memory, std::size_t bytes) {
  if (setting_ != Stores::kAuto) return setting_;
  if (bytes_until_probe_ == 0) {
    bandwidth_ = probe_cache_to_cache_bandwidth(memory);
    chosen_ = bandwidth_ >= kSharedCacheBandwidth ? Stores::kPlain : Stores::kStreaming;
    bytes_until_probe_ = kBytesBetweenProbes;
  }
  bytes_until_probe_ -= std::min(bytes, bytes_until_probe_);
  return chosen_;
}

}  // namespace horo::collectives
