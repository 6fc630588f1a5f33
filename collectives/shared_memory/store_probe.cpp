#include "collectives/shared_memory/store_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/shared_memory/direct_allreduce.h"

namespace horo::collectives {
namespace {

// The first rounds bring the slots' lines to where steady traffic leaves them.
constexpr std::uint32_t kWarmUpRounds = NodeMemory::kSlots;
constexpr std::uint32_t kMeasuredRounds = 4;

// Where cores share no cache, streaming stores are several times as fast; where they do, plain ones
// are by up to two, but a probe that meets cold caches sees both alike.
constexpr double kClearly = 1.5;

// Bytes per second of the fastest measured round.
double measure(NodeMemory& memory, Stores stores, std::vector<std::byte>& own,
               std::vector<std::byte>& sink) {
  const std::uint32_t rounds = kWarmUpRounds + kMeasuredRounds;
  const std::uint32_t first_step = memory.begin_steps(rounds, own.size());
  const int next = (memory.rank() + 1) % memory.size();
  auto fastest = std::chrono::steady_clock::duration::max();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint32_t step = first_step + round;
    memory.wait_free(step);
    const auto start = std::chrono::steady_clock::now();
    copy(memory.slot(memory.rank(), step), own.data(), own.size(), stores);
    memory.post(step);
    memory.wait_posted(next, step);
    copy(sink.data(), memory.slot(next, step), sink.size(), Stores::kPlain);
    memory.finish(step);
    if (round >= kWarmUpRounds)
      fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
  }
  return static_cast<double>(own.size()) / std::chrono::duration<double>(fastest).count();
}

}  // namespace

StoreBandwidths probe_stores(NodeMemory& memory) {
  std::vector<std::byte> own(memory.step_bytes());
  std::vector<std::byte> sink(memory.step_bytes());
  double figures[2] = {measure(memory, Stores::kPlain, own, sink),
                       measure(memory, Stores::kStreaming, own, sink)};
  std::vector<std::byte> scratch;
  direct_allreduce(memory, ScatteredBuffer(DataType::kFloat64, figures, 2), ReduceOp::kMin,
                   Stores::kPlain, scratch);
  return {figures[0], figures[1]};
}

Stores StoreChooser::choose(NodeMemory& memory, std::size_t bytes) {
  if (setting_ != Stores::kAuto) return setting_;
  if (bytes_until_probe_ == 0) {
    bandwidths_ = probe_stores(memory);
    chosen_ =
        bandwidths_.streaming > kClearly * bandwidths_.plain ? Stores::kStreaming : Stores::kPlain;
    bytes_until_probe_ = kBytesBetweenProbes;
  }
  bytes_until_probe_ -= std::min(bytes, bytes_until_probe_);
  return chosen_;
}

}  // namespace horo::collectives
