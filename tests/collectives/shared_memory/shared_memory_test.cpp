#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "collectives/shared_memory/shared_memory_allreduce.h"
#include "collectives/shared_memory/shared_memory_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;

void run(int ranks, const SharedMemoryCollectives::Options& options,
         const InProcessJob::Options& job,
         const std::function<void(SharedMemoryCollectives&, int)>& function) {
  contract::run_thread_ranks(ranks, job, [&](Transport& transport, int rank) {
    std::vector<std::string> names;
    for (int r = 0; r < ranks; ++r) names.push_back("rank " + std::to_string(r));
    SharedMemoryCollectives collectives(
        transport.make_node_region(SharedMemoryCollectives::bytes_needed(ranks, options)), rank,
        names, options, transport.wait_policy());
    function(collectives, rank);
  });
}

TEST(SharedMemory, BitsDoNotDependOnPackingOrPath) {
  // The same values as one buffer, as odd pieces, and one by one in direct exchanges.
  constexpr std::size_t kCount = 5003;
  run(4, {.segment_bytes = 4096, .direct_bytes = 256}, {},
      [](SharedMemoryCollectives& collectives, int rank) {
        std::vector<float> whole(kCount);
        for (std::size_t i = 0; i < kCount; ++i)
          whole[i] = 1.0f / static_cast<float>(static_cast<std::size_t>(rank + 1) * 13 + i);
        std::vector<float> pieces = whole;
        std::vector<float> few = whole;
        collectives.allreduce({DataType::kFloat32, whole.data(), kCount}, ReduceOp::kAverage);

        ScatteredBuffer scattered(DataType::kFloat32);
        std::mt19937 random(9);
        for (std::size_t at = 0; at < kCount;) {
          const std::size_t count = std::min<std::size_t>(random() % 90 + 1, kCount - at);
          scattered.add(pieces.data() + at, count);
          at += count;
        }
        collectives.allreduce(scattered, ReduceOp::kAverage);
        EXPECT_EQ(pieces, whole);

        for (std::size_t at = 0; at < kCount; at += 50)
          collectives.allreduce(
              {DataType::kFloat32, few.data() + at, std::min<std::size_t>(50, kCount - at)},
              ReduceOp::kAverage);
        EXPECT_EQ(few, whole);
      });
}

TEST(SharedMemory, SupportsDifferentAlignmentPerRank) {
  for (const Stores stores : {Stores::kPlain, Stores::kStreaming})
    run(3, {.segment_bytes = 4096, .direct_bytes = 64, .stores = stores}, {},
        [](SharedMemoryCollectives& collectives, int rank) {
          // Consecutive calls with different lengths and alignments.
          for (std::size_t call = 0; call < 200; ++call) {
            const std::size_t count = 20 + call * 37 % 3000;
            const std::size_t gap = (static_cast<std::size_t>(rank) * 5 + call) % 17;
            std::vector<float> memory(gap + count + 1, -1.0f);
            for (std::size_t i = 0; i < count; ++i)
              memory[gap + i] = static_cast<float>(call + i * static_cast<std::size_t>(rank + 1));
            collectives.allreduce({DataType::kFloat32, memory.data() + gap, count}, ReduceOp::kSum);
            for (std::size_t i = 0; i < count; ++i)
              ASSERT_EQ(memory[gap + i], static_cast<float>(3 * call + 6 * i)) << call << " " << i;
            for (std::size_t i = 0; i < gap; ++i) ASSERT_EQ(memory[i], -1.0f);
            ASSERT_EQ(memory.back(), -1.0f);
          }
        });
}

TEST(SharedMemory, SmallStepsUseAllSlots) {
  constexpr std::size_t kStep = 4096;
  InProcessJob job(1);
  const auto transport = job.transport(0);
  NodeMemory memory(transport->make_node_region(NodeMemory::bytes_needed(2, 65536, 256)), 0,
                    {"rank 0", "rank 1"}, 65536, 256, transport->wait_policy());
  const std::size_t steps = NodeMemory::kSlots * NodeMemory::kMostSlotBytes / kStep;
  std::set<std::byte*> places;
  for (std::size_t i = 0; i < 2 * steps; ++i)
    places.insert(memory.slot(0, memory.begin_steps(1, kStep)));
  EXPECT_EQ(places.size(), steps);
  EXPECT_EQ(*places.rbegin() - *places.begin(), static_cast<std::ptrdiff_t>((steps - 1) * kStep));
  EXPECT_LE(*places.rbegin() + kStep, memory.slot(1, memory.begin_steps(1, 65536)));
}

TEST(SharedMemory, SixteenBitSumsRoundOnce) {
  // 1 + 2^-9 * 8 in float32 is 1.015625; rounding at every addition would leave 1.
  constexpr int kRanks = 9;
  for (std::size_t count : {10ul, 3000ul}) {
    run(kRanks, {.segment_bytes = 4096, .direct_bytes = 256}, {},
        [&](SharedMemoryCollectives& collectives, int rank) {
          std::vector<BFloat16> x(count, BFloat16(rank == 0 ? 1.0f : 0x1p-9f));
          collectives.allreduce({DataType::kBFloat16, x.data(), count}, ReduceOp::kSum);
          for (const BFloat16& value : x) ASSERT_EQ(static_cast<float>(value), 1.015625f);
        });
  }
}

TEST(SharedMemory, SixteenBitAverageDoesNotOverflow) {
  for (std::size_t count : {10ul, 3000ul})
    run(4, {.segment_bytes = 4096, .direct_bytes = 256}, {},
        [&](SharedMemoryCollectives& collectives, int) {
          std::vector<Float16> x(count, Float16(60000.0f));
          collectives.allreduce({DataType::kFloat16, x.data(), count}, ReduceOp::kAverage);
          for (const Float16& value : x) ASSERT_EQ(static_cast<float>(value), 60000.0f);
        });
}

TEST(SharedMemory, NamesMissingPeer) {
  InProcessJob::Options job;
  job.wait.timeout = 200ms;
  for (std::size_t count : {3ul, 5000ul}) {
    try {
      run(2, {.segment_bytes = 4096, .direct_bytes = 256}, job,
          [&](SharedMemoryCollectives& collectives, int rank) {
            if (rank == 1) {
              std::this_thread::sleep_for(1s);
              return;
            }
            std::vector<float> x(count);
            collectives.allreduce({DataType::kFloat32, x.data(), count}, ReduceOp::kSum);
          });
      FAIL() << count;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("for rank 1 to"), std::string::npos) << error.what();
    }
  }
}

TEST(SharedMemory, NamesExitedPeerAtOnce) {
  run(2, {.segment_bytes = 4096, .direct_bytes = 256}, {},
      [](SharedMemoryCollectives& collectives, int rank) {
        std::vector<float> x(5000);
        collectives.allreduce({DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum);
        if (rank == 1) return;
        EXPECT_THROW(
            collectives.allreduce({DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum),
            ShutdownError);
      });
}

// A rank that ends because another rank has exited must not hide the cause from ranks that wait for
// it.
TEST(SharedMemory, AllNameFirstRankToExit) {
  for (const std::size_t count : {3ul, 5000ul})
    run(4, {.segment_bytes = 4096, .direct_bytes = 256}, {},
        [&](SharedMemoryCollectives& collectives, int rank) {
          std::vector<float> x(count);
          collectives.allreduce({DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum);
          if (rank == 2) return;
          try {
            collectives.allreduce({DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum);
            ADD_FAILURE() << "no error";
          } catch (const ShutdownError& error) {
            EXPECT_EQ(std::string(error.what()).find("rank 2"), 0u) << error.what();
          }
        });
}

TEST(SharedMemory, EveryRankHasCacheLineOfSlot) {
  constexpr int kRanks = 70;
  InProcessJob job(1);
  const auto transport = job.transport(0);
  const NodeMemory memory(transport->make_node_region(NodeMemory::bytes_needed(kRanks, 4096, 256)),
                          kRanks - 1, std::vector<std::string>(kRanks, "a rank"), 4096, 256,
                          transport->wait_policy());
  EXPECT_GE(memory.step_bytes(), std::size_t{kRanks} * 64);
}

TEST(SharedMemory, OneRequestMakesAllProbeInSameCall) {
  constexpr int kRanks = 3;
  contract::run_thread_ranks(kRanks, {}, [](Transport& transport, int rank) {
    NodeMemory memory(transport.make_node_region(NodeMemory::bytes_needed(kRanks, 4096, 256)), rank,
                      {"rank 0", "rank 1", "rank 2"}, 4096, 256, transport.wait_policy());
    StoreChooser chooser(Stores::kAuto);
    std::vector<float> x(5000);
    const auto allreduce = [&] {
      std::fill(x.begin(), x.end(), static_cast<float>(rank));
      pipelined_allreduce(memory, {DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum, 4096,
                          Stores::kPlain, chooser);
      for (const float value : x) ASSERT_EQ(value, 3.0f);
    };
    chooser.choose(memory, 2 * StoreChooser::kBytesBeforeRequest);
    EXPECT_EQ(chooser.probes(), 1);
    allreduce();
    chooser.choose(memory, 1);
    EXPECT_EQ(chooser.probes(), 1) << "no rank requested a probe";

    constexpr std::size_t kMiB = 1 << 20;
    if (rank == 1) {
      EXPECT_EQ(chooser.add_sample(Stores::kPlain, kMiB, 1e-4), Stores::kPlain);
      EXPECT_EQ(chooser.add_sample(Stores::kPlain, kMiB, 1.0), Stores::kPlain);
      EXPECT_EQ(chooser.add_sample(Stores::kPlain, kMiB, 1.0), Stores::kStreaming);
    }
    EXPECT_EQ(chooser.wants_probe(), rank == 1);
    allreduce();
    chooser.choose(memory, 1);  // hangs unless all probe
    EXPECT_EQ(chooser.probes(), 2);
    EXPECT_FALSE(chooser.wants_probe());
    allreduce();
  });
}

TEST(SharedMemory, ProbeAgreesOnEveryRank) {
  std::vector<StoreBandwidths> measured(3);
  run(3, {}, {}, [&](SharedMemoryCollectives& collectives, int rank) {
    std::vector<float> x(1000, 1.0f);
    collectives.allreduce({DataType::kFloat32, x.data(), x.size()}, ReduceOp::kSum);
    EXPECT_EQ(x[999], 3.0f);
    measured[static_cast<std::size_t>(rank)] = collectives.store_bandwidths();
  });
  for (const StoreBandwidths& figures : measured) {
    EXPECT_GT(figures.plain, 0);
    EXPECT_GT(figures.streaming, 0);
    EXPECT_EQ(figures.plain, measured[0].plain);
    EXPECT_EQ(figures.streaming, measured[0].streaming);
  }
}

}  // namespace
}  // namespace horo::collectives
