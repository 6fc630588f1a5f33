// A rank that has sent its part of a broadcast may start the next collective while another rank
// still reads. It must not overwrite the slots that are still being read.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "collectives/shared_memory/shared_memory_collectives.h"
#include "horo/base/wait.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

// Slots hold one step each, so the fifth step reuses the slot of the first one.
constexpr std::size_t kStepBytes = NodeMemory::kMostSlotBytes;
constexpr std::size_t kSteps = NodeMemory::kSlots;
constexpr std::size_t kCount = kSteps * kStepBytes / sizeof(float);
// After this many polls, a waiting rank is known to be blocked.
constexpr int kPollsOfBlockedRank = 60;

void broadcast_before(const std::function<void(SharedMemoryCollectives&)>& next) {
  std::atomic<int> polls_of_root{0};
  std::atomic<bool> is_root_done{false};
  contract::run_thread_ranks(2, {}, [&](Transport& transport, int rank) {
    const SharedMemoryCollectives::Options options{
        .segment_bytes = kStepBytes, .direct_bytes = 64, .stores = Stores::kPlain};
    SharedMemoryCollectives collectives(
        transport.make_node_region(SharedMemoryCollectives::bytes_needed(2, options)), rank,
        {"rank 0", "rank 1"}, options, transport.wait_policy());
    std::vector<float> values(kCount);
    if (rank == 0)
      for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 1000 + 1);
    const WhileWaiting work([&] {
      if (rank == 0) {
        ++polls_of_root;
        return false;
      }
      while (polls_of_root < kPollsOfBlockedRank && !is_root_done) std::this_thread::yield();
      return false;
    });
    collectives.broadcast({DataType::kFloat32, values.data(), kCount}, 0);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(values[i], static_cast<float>(i % 1000 + 1)) << i;
    next(collectives);
    if (rank == 0) is_root_done = true;
  });
}

TEST(SlowReader, AllreduceDoesNotOverwriteBroadcast) {
  broadcast_before([](SharedMemoryCollectives& collectives) {
    std::vector<float> values(kCount, -1.0f);
    collectives.allreduce({DataType::kFloat32, values.data(), kCount}, ReduceOp::kSum);
    EXPECT_EQ(values.back(), -2.0f);
  });
}

TEST(SlowReader, BroadcastDoesNotOverwriteBroadcast) {
  broadcast_before([](SharedMemoryCollectives& collectives) {
    std::vector<float> values(kCount, -1.0f);
    collectives.broadcast({DataType::kFloat32, values.data(), kCount}, 0);
  });
}

TEST(SlowReader, AllgatherDoesNotOverwriteBroadcast) {
  broadcast_before([](SharedMemoryCollectives& collectives) {
    const std::vector<float> values(kCount, -1.0f);
    std::vector<float> all(2 * kCount);
    const std::vector<std::size_t> bytes_of(2, kCount * sizeof(float));
    collectives.allgather(std::as_bytes(std::span(values)), bytes_of,
                          std::as_writable_bytes(std::span(all)));
    EXPECT_EQ(all.back(), -1.0f);
  });
}

TEST(SlowReader, ReduceScatterDoesNotOverwriteBroadcast) {
  broadcast_before([](SharedMemoryCollectives& collectives) {
    const std::vector<float> values(2 * kCount, -1.0f);
    std::vector<float> own(kCount);
    const std::vector<std::size_t> count_of(2, kCount);
    collectives.reduce_scatter(std::as_bytes(std::span(values)).data(), DataType::kFloat32,
                               count_of, std::as_writable_bytes(std::span(own)).data(),
                               ReduceOp::kSum);
    EXPECT_EQ(own.back(), -2.0f);
  });
}

TEST(SlowReader, AlltoallDoesNotOverwriteBroadcast) {
  broadcast_before([](SharedMemoryCollectives& collectives) {
    const std::vector<float> values(2 * kCount, -1.0f);
    std::vector<float> received(2 * kCount);
    const std::vector<std::size_t> bytes(2, kCount * sizeof(float));
    collectives.alltoall(std::as_bytes(std::span(values)), bytes,
                         std::as_writable_bytes(std::span(received)), bytes);
    EXPECT_EQ(received.back(), -1.0f);
  });
}

}  // namespace
}  // namespace horo::collectives
