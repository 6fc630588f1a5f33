#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "collectives/shared_memory/shared_memory_collectives.h"
#include "collectives/shared_region.h"
#include "tests/collectives/contract/contract_values.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/support/sanitizer.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kLargest = 4001;
constexpr std::byte kGuard{0x5a};

// A gap between pieces that differs by rank, so equal pieces have different alignments.
std::size_t gap_of(int rank, std::size_t width) {
  return (static_cast<std::size_t>(rank) * 3 + 1) * width;
}

std::vector<std::size_t> cut(std::size_t count, bool in_pieces) {
  if (!in_pieces) return {count};
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::size_t> counts;
  for (std::size_t at = 0; at < count; at += counts.back())
    counts.push_back(std::min<std::size_t>(random() % 700, count - at));
  return counts;
}

// Checks that mapped buffers get the same bits as private ones in allreduce(), and that the memory
// around them is unchanged.
template <typename T>
void check(SharedMemoryCollectives& collectives, const NodeBlock& block, int rank, int ranks,
           std::size_t count, ReduceOp op, bool in_pieces) {
  constexpr DataType kType = data_type_of<T>;
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = contract::contribution<T>(rank, i, op, 0);

  std::memset(block.own().data(), int(kGuard), block.own().size());
  MappedBuffer mapped(kType, ranks, rank);
  std::vector<std::size_t> used(static_cast<std::size_t>(ranks), 0);
  std::size_t at = 0;
  std::vector<bool> is_payload(block.own().size(), false);
  for (const std::size_t n : cut(count, in_pieces)) {
    std::vector<std::byte*> address_of;
    for (int r = 0; r < ranks; ++r) {
      used[r] += gap_of(r, sizeof(T));
      address_of.push_back(block.at(r, used[r]));
      if (r == rank)
        std::fill_n(is_payload.begin() + static_cast<std::ptrdiff_t>(used[r]), n * sizeof(T), true);
      used[r] += n * sizeof(T);
    }
    if (n > 0) std::memcpy(address_of[rank], &values[at], n * sizeof(T));
    at += n;
    mapped.add(address_of, n);
  }
  collectives.barrier();  // the peers have written their guards and values
  collectives.allreduce_mapped(mapped, op);
  collectives.allreduce({kType, values.data(), count}, op);
  mapped.own().for_each_span(0, count,
                             [&](const std::byte* data, std::size_t first, std::size_t n) {
                               ASSERT_EQ(std::memcmp(data, &values[first], n * sizeof(T)), 0)
                                   << name_of(kType) << " " << name_of(op) << " rank " << rank
                                   << " elements from " << first << " of " << count;
                             });
  for (std::size_t b = 0; b < is_payload.size(); ++b) {
    ASSERT_TRUE(is_payload[b] || block.own()[b] == kGuard) << "byte " << b;
  }
  collectives.barrier();
}

class MappedAllreduce : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MappedAllreduce, testing::Values(1, 2, 3, 4, 7, 8));

TEST_P(MappedAllreduce, MatchesBitsOfAllreduce) {
  const int ranks = GetParam();
  contract::run_thread_ranks(ranks, {}, [ranks](Transport& transport, int rank) {
    const SharedMemoryCollectives::Options options{.segment_bytes = 4096, .direct_bytes = 64};
    SharedMemoryCollectives collectives(
        transport.make_node_region(SharedMemoryCollectives::bytes_needed(ranks, options)), rank,
        std::vector<std::string>(static_cast<std::size_t>(ranks), "a rank"), options,
        transport.wait_policy());
    constexpr std::size_t kBytes = 2 * kLargest * sizeof(std::int64_t);
    const NodeBlock block(transport.make_node_region(kBytes * static_cast<std::size_t>(ranks)),
                          rank, kBytes);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1023}, kLargest})
      for (const bool in_pieces : {false, true})
        for (int op = 0; op < kElementwiseOpCount; ++op) {
          if (!is_tested(ReduceOp(op))) continue;
          check<float>(collectives, block, rank, ranks, count, ReduceOp(op), in_pieces);
          check<BFloat16>(collectives, block, rank, ranks, count, ReduceOp(op), in_pieces);
          check<std::int8_t>(collectives, block, rank, ranks, count, ReduceOp(op), in_pieces);
          check<std::int64_t>(collectives, block, rank, ranks, count, ReduceOp(op), in_pieces);
        }
  });
}

}  // namespace
}  // namespace horo::collectives
