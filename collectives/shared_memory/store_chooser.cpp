#include "collectives/shared_memory/store_chooser.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/shared_memory/shared_memory_allreduce.h"

namespace horo::collectives {

namespace {

constexpr std::uint32_t kMeasuredRounds = 4;

// Under the thread sanitizer, timings are meaningless, and a warm-up would take most of the time of
// each test.
#if defined(__SANITIZE_THREAD__)
constexpr bool kWarmsUp = false;
#else
constexpr bool kWarmsUp = true;
#endif

// Returns the bytes per second of the fastest measured round.
double measure(NodeMemory& memory, Stores stores, std::vector<std::byte>& own,
               std::vector<std::byte>& sink) {
  // Unmeasured rounds over all slots bring the cache lines into the state of repeated collectives.
  const std::uint32_t warm_up_rounds = kWarmsUp ? memory.steps_in_all_slots(own.size()) : 0;
  const std::uint32_t rounds = warm_up_rounds + kMeasuredRounds;
  const std::uint32_t first_step = memory.begin_steps(rounds, own.size());
  const int next = (memory.rank() + 1) % memory.size();
  auto fastest = std::chrono::steady_clock::duration::max();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint32_t step = first_step + round;
    memory.wait_free(step);
    const auto start = std::chrono::steady_clock::now();
    copy(memory.slot(memory.rank(), step), own.data(), own.size(), stores);
    fence(stores);
    memory.post(step);
    memory.wait_posted(next, step);
    copy(sink.data(), memory.slot(next, step), sink.size(), Stores::kPlain);
    memory.finish(step);
    if (round >= warm_up_rounds)
      fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
  }
  return static_cast<double>(own.size()) / std::chrono::duration<double>(fastest).count();
}

}  // namespace

// The minimum over the ranks is equal on all ranks, so all of them choose the same kind of stores.
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

namespace {

// Streaming stores are chosen if they are faster than plain stores by more than this factor. If the
// ranks share no cache, streaming stores are several times faster. If the ranks share a cache,
// plain stores are up to twice as fast, but a probe may find both equally fast if the caches are
// cold.
constexpr double kClearly = 1.5;

}  // namespace

Stores StoreChooser::choose(NodeMemory& memory, std::size_t bytes) {
  if (setting_ != Stores::kAuto) return setting_;
  if (bytes_until_probe_ == 0) {
    bandwidths_ = probe_stores(memory);
    ++probes_;
    chosen_ =
        bandwidths_.streaming > kClearly * bandwidths_.plain ? Stores::kStreaming : Stores::kPlain;
    bytes_until_probe_ = kBytesBetweenProbes;
    // A request of this rank that the probe does not confirm is considered noise. The number of
    // bytes before its next request then doubles, so that noise triggers fewer and fewer probes.
    const bool is_confirmed = chosen_ == Stores::kStreaming;
    if (wants_probe_)
      bytes_before_request_ = is_confirmed ? kBytesBeforeRequest : 2 * bytes_before_request_;
    pace_ = {};
    wants_probe_ = false;
  }
  bytes_until_probe_ -= std::min(bytes, bytes_until_probe_);
  return chosen_;
}

Stores StoreChooser::add_sample(Stores used, std::size_t bytes, double seconds) {
  if (setting_ != Stores::kAuto || used != Stores::kPlain) return used;
  // Ignores the sample if fewer than bytes_before_request_ bytes have passed since the last probe.
  if (bytes_until_probe_ + bytes_before_request_ > kBytesBetweenProbes) return used;
  if (!pace_.has_dropped(bytes, seconds)) return used;
  wants_probe_ = true;
  return Stores::kStreaming;
}

void StoreChooser::probe_next() { bytes_until_probe_ = 0; }

}  // namespace horo::collectives
