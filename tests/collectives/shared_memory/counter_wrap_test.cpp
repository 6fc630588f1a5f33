#include <gtest/gtest.h>

#include <barrier>

#include "collectives/chunks.h"
#include "collectives/shared_memory/pipelined_collectives.h"
#include "collectives/shared_memory/shared_memory_allreduce.h"
#include "collectives/shared_memory/store_chooser.h"
#include "tests/collectives/contract/contract_sizes.h"
#include "tests/collectives/contract/copy_checks.h"
#include "tests/collectives/contract/reduction_checks.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using namespace contract;

constexpr std::size_t kSegmentBytes = 4096;
constexpr std::size_t kDirectBytes = 256;

// The collectives of this folder over a NodeMemory, combined as in SharedMemoryCollectives.
class OverMemory : public Collectives {
 public:
  explicit OverMemory(NodeMemory& memory) : memory_(memory) {}

  std::string_view name() const override { return "over memory"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override {
    if (buffer.bytes() <= kDirectBytes)
      direct_allreduce(memory_, buffer, op, Stores::kPlain, scratch_);
    else
      pipelined_allreduce(memory_, buffer, op, kSegmentBytes, Stores::kPlain, chooser_);
  }
  void broadcast(const ScatteredBuffer& buffer, int root) override {
    pipelined_broadcast(memory_, buffer, root, Stores::kPlain);
  }
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override {
    pipelined_allgather(memory_, input, bytes_of, output, Stores::kPlain);
  }
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override {
    pipelined_reduce_scatter(memory_, input, type, count_of, output, op, Stores::kPlain);
  }
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override {
    const AlltoallBlocks blocks(input, bytes_to, output, bytes_from);
    pipelined_alltoall(memory_, blocks, exchange_streams(memory_, blocks), Stores::kPlain);
  }
  void barrier() override {
    direct_allreduce(memory_, ScatteredBuffer(DataType::kUInt8), ReduceOp::kSum, Stores::kPlain,
                     scratch_);
  }

 private:
  NodeMemory& memory_;
  std::vector<std::byte> scratch_;
  StoreChooser chooser_{Stores::kPlain};
};

// Runs function(collectives, rank) on ranks whose counters have the value `number`.
void run_from(std::uint32_t number, int ranks,
              const std::function<void(Collectives&, int)>& function) {
  std::barrier ready(ranks);
  run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    NodeMemory memory(
        transport.make_node_region(NodeMemory::bytes_needed(ranks, kSegmentBytes, kDirectBytes)),
        rank, std::vector<std::string>(static_cast<std::size_t>(ranks), "a rank"), kSegmentBytes,
        kDirectBytes, transport.wait_policy());
    memory.start_at(number);
    ready.arrive_and_wait();
    OverMemory collectives(memory);
    function(collectives, rank);
  });
}

// Numbers just before a change of sign of the number, or of its difference to zero.
class CounterWrap : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Numbers, CounterWrap,
                         testing::Values(0u - 64, (1u << 31) - 64, 64u, 0u - 4));

TEST_P(CounterWrap, EveryCollectiveWorksAcrossIt) {
  for (const int ranks : {2, 3, 4})
    run_from(GetParam(), ranks, [&](Collectives& collectives, int rank) {
      constexpr std::size_t kCount = 2501;  // three segments
      const auto own = contributions<float>(rank, kCount, ReduceOp::kSum);
      const auto expected = expected_values<float>(ranks, kCount, ReduceOp::kSum);
      const auto n = static_cast<std::size_t>(ranks);
      for (std::size_t round = 0; round < 40; ++round) {
        for (const std::size_t count : {kCount, kCount % 50, std::size_t{3}})
          check_allreduce(collectives, count, ReduceOp::kSum, Cut::kOddPieces, own, expected);
        check_reduce_scatter(collectives, rank, chunk_sizes(kCount, n), ReduceOp::kSum, own,
                             expected);
        check_broadcast<float>(collectives, rank, kCount, static_cast<int>(round % n), Cut::kWhole,
                               round);
        check_allgather(collectives, rank, uneven_parts(ranks, 5000), false);
        check_alltoall(collectives, rank, ranks, uneven_pairs(5000), round);
        collectives.barrier();
        if (testing::Test::HasFatalFailure()) return;
      }
    });
}

// Each kind of counter alone, across the boundary.
TEST_P(CounterWrap, DirectOrPipelinedAloneWorkAcrossIt) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{60}, std::size_t{1100}})
    run_from(GetParam(), 3, [&](Collectives& collectives, int rank) {
      for (std::size_t round = 0; round < 200; ++round) {
        const auto own = contributions<std::int32_t>(rank, count, ReduceOp::kSum, round);
        const auto expected = expected_values<std::int32_t>(3, count, ReduceOp::kSum, round);
        check_allreduce(collectives, count, ReduceOp::kSum, Cut::kWhole, own, expected);
        if (testing::Test::HasFatalFailure()) return;
      }
    });
}

}  // namespace
}  // namespace horo::collectives
