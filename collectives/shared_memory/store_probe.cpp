#include "collectives/shared_memory/store_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/shared_memory/direct_allreduce.h"

namespace horo::collectives {
namespace {

constexpr std::uint32_t kMeasuredRounds = 4;

// The thread sanitizer looks at every byte that is copied: figures taken under it say nothing, and
// a warm-up would take most of the time of every test.
#if defined(__SANITIZE_THREAD__)
constexpr bool kWarmsUp = false;
#else
constexpr bool kWarmsUp = true;
#endif

// Bytes per second of the fastest measured round.
double measure(NodeMemory& memory, Stores stores, std::vector<std::byte>& own,
               std::vector<std::byte>& sink) {
  // Before it is measured, every line is brought to where steady traffic leaves it.
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

}  // namespace horo::collectives
