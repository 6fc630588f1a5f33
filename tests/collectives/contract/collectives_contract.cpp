#include "tests/collectives/contract/collectives_contract.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <thread>

#include "horo/base/hash.h"
#include "tests/collectives/contract/contract_values.h"
#include "tests/collectives/contract/pieced_array.h"

namespace horo::collectives::contract {
namespace {

// Larger than several segments of the backends under test, and odd.
constexpr std::size_t kLarge = 7001;

std::vector<std::size_t> counts_for(int size) {
  const auto n = static_cast<std::size_t>(size);
  return {0, 1, 2, n - 1, n, n + 1, 17, 1023, 1025, kLarge};
}

template <typename T>
std::span<const std::byte> bytes_of_vector(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

template <typename T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <Element T>
void check_allreduce(Collectives& collectives, int rank, int size, std::size_t count, ReduceOp op,
                     Cut cut, std::size_t round = 0) {
  PiecedArray<T> array(count, cut);
  for (std::size_t i = 0; i < count; ++i) array.set(i, contribution<T>(rank, i, op, round));
  collectives.allreduce(array.buffer(), op);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_TRUE(same_bits(array.get(i), expected_value<T>(size, i, op, round)))
        << "allreduce " << name_of(data_type_of<T>) << " " << name_of(op) << " rank " << rank
        << " element " << i << " of " << count;
  ASSERT_TRUE(array.guards_are_intact());
}

template <Element T>
void check_broadcast(Collectives& collectives, int rank, std::size_t count, int root, Cut cut,
                     std::size_t round = 0) {
  PiecedArray<T> array(count, cut);
  for (std::size_t i = 0; i < count; ++i)
    array.set(i, contribution<T>(rank, i, ReduceOp::kSum, round));
  collectives.broadcast(array.buffer(), root);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_TRUE(same_bits(array.get(i), contribution<T>(root, i, ReduceOp::kSum, round)))
        << "broadcast from " << root << " rank " << rank << " element " << i << " of " << count;
  ASSERT_TRUE(array.guards_are_intact());
}

// Uneven parts, some empty: rank r has `base` plus something, every third rank nothing.
std::vector<std::size_t> uneven_parts(int size, std::size_t base) {
  std::vector<std::size_t> parts;
  for (int r = 0; r < size; ++r)
    parts.push_back(r % 3 == 1 ? 0 : base + static_cast<std::size_t>(r) * 13 % 7);
  return parts;
}

void check_allgather(Collectives& collectives, int rank, const std::vector<std::size_t>& bytes_of,
                     bool is_in_place) {
  const auto value = [](std::size_t r, std::size_t i) {
    return static_cast<std::uint8_t>(r * 83 + i * 7 + 1);
  };
  const std::size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), std::size_t{0});
  const auto own = static_cast<std::size_t>(rank);
  const auto begin = std::accumulate(bytes_of.begin(), bytes_of.begin() + rank, std::size_t{0});
  std::vector<std::uint8_t> input(bytes_of[own]), output(total);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = value(own, i);
  std::span<const std::byte> source = bytes_of_vector(input);
  if (is_in_place) {
    std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(begin));
    source = bytes_of_vector(output).subspan(begin, input.size());
  }
  collectives.allgather(source, bytes_of, std::as_writable_bytes(std::span(output)));
  std::size_t at = 0;
  for (std::size_t r = 0; r < bytes_of.size(); ++r)
    for (std::size_t i = 0; i < bytes_of[r]; ++i, ++at)
      ASSERT_EQ(output[at], value(r, i))
          << "allgather on rank " << rank << ", byte " << i << " of " << r;
}

template <Element T>
void check_reduce_scatter(Collectives& collectives, int rank, int size,
                          const std::vector<std::size_t>& count_of, ReduceOp op) {
  const std::size_t total = std::accumulate(count_of.begin(), count_of.end(), std::size_t{0});
  const auto begin = std::accumulate(count_of.begin(), count_of.begin() + rank, std::size_t{0});
  std::vector<T> input(total), output(count_of[static_cast<std::size_t>(rank)]);
  for (std::size_t i = 0; i < total; ++i) input[i] = contribution<T>(rank, i, op);
  const std::vector<T> before = input;
  collectives.reduce_scatter(reinterpret_cast<const std::byte*>(input.data()), data_type_of<T>,
                             count_of, reinterpret_cast<std::byte*>(output.data()), op);
  for (std::size_t i = 0; i < output.size(); ++i)
    ASSERT_TRUE(same_bits(output[i], expected_value<T>(size, begin + i, op)))
        << "reduce_scatter " << name_of(data_type_of<T>) << " " << name_of(op) << " rank " << rank
        << " element " << i << " of " << output.size();
  ASSERT_TRUE(total == 0 || std::memcmp(input.data(), before.data(), total * sizeof(T)) == 0)
      << "reduce_scatter changed its input";
}

// How many bytes rank r has for rank s.
using PairBytes = std::function<std::size_t(std::size_t r, std::size_t s)>;

// Another size for every pair, every fourth pair nothing.
PairBytes uneven_pairs(std::size_t base) {
  return [=](std::size_t r, std::size_t s) {
    return (r * 3 + s * 5) % 4 == 1 ? 0 : base + (r * 13 + s * 7) % 11;
  };
}

void check_alltoall(Collectives& collectives, int rank, int size, const PairBytes& pair_bytes,
                    std::size_t round = 0) {
  const auto value = [&](std::size_t r, std::size_t s, std::size_t i) {
    return static_cast<std::uint8_t>(r * 83 + s * 29 + i * 7 + i / 251 + round + 1);
  };
  const auto own = static_cast<std::size_t>(rank);
  const auto n = static_cast<std::size_t>(size);
  std::vector<std::size_t> bytes_to, bytes_from;
  std::vector<std::uint8_t> input, expected;
  for (std::size_t peer = 0; peer < n; ++peer) {
    bytes_to.push_back(pair_bytes(own, peer));
    bytes_from.push_back(pair_bytes(peer, own));
    for (std::size_t i = 0; i < bytes_to.back(); ++i) input.push_back(value(own, peer, i));
    for (std::size_t i = 0; i < bytes_from.back(); ++i) expected.push_back(value(peer, own, i));
  }
  constexpr std::size_t kGuarded = 64;
  const std::vector<std::uint8_t> before = input;
  std::vector<std::uint8_t> output(expected.size() + 2 * kGuarded, 0xa5);
  collectives.alltoall(bytes_of_vector(input), bytes_to,
                       std::as_writable_bytes(std::span(output)).subspan(kGuarded, expected.size()),
                       bytes_from);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(output[kGuarded + i], expected[i])
        << "alltoall on rank " << rank << ", byte " << i << " of " << expected.size();
  for (std::size_t i = 0; i < kGuarded; ++i)
    ASSERT_TRUE(output[i] == 0xa5 && output[output.size() - 1 - i] == 0xa5)
        << "alltoall wrote beyond its output";
  ASSERT_EQ(input, before) << "alltoall changed its input";
}

template <typename Function>
void for_each_type(Function&& function) {
  for (int type = 0; type < kDataTypeCount; ++type)
    visit_type(static_cast<DataType>(type), function);
}

TEST_P(CollectivesContract, AllreduceReducesEveryTypeOperationCountAndCut) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    for_each_type([&](auto zero) {
      for (int op = 0; op < kElementwiseOpCount; ++op)
        for (const std::size_t count : counts_for(size))
          for (const Cut cut : {Cut::kWhole, Cut::kOddPieces})
            check_allreduce<decltype(zero)>(collectives, rank, size, count, ReduceOp(op), cut);
    });
  });
}

TEST_P(CollectivesContract, BroadcastCopiesFromEveryRoot) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    for (int root = 0; root < size; ++root)
      for (const std::size_t count : counts_for(size))
        for (const Cut cut : {Cut::kWhole, Cut::kOddPieces}) {
          check_broadcast<float>(collectives, rank, count, root, cut);
          check_broadcast<std::uint8_t>(collectives, rank, count, root, cut);
        }
    for (int root = 0; root < size; ++root)
      check_broadcast<float>(collectives, rank, 3 * kLarge, root, Cut::kOddPieces);
    // Ranks may cut the same array differently.
    check_broadcast<double>(collectives, rank, kLarge, size - 1,
                            rank % 2 ? Cut::kWhole : Cut::kOddPieces);
  });
}

TEST_P(CollectivesContract, AllgatherPutsUnevenPartsInRankOrder) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    for (const bool is_in_place : {false, true})
      for (const std::size_t base : {0, 1, 5, 1021, 40000}) {
        check_allgather(collectives, rank, uneven_parts(size, base), is_in_place);
        check_allgather(collectives, rank,
                        std::vector<std::size_t>(static_cast<std::size_t>(size), base),
                        is_in_place);
      }
  });
}

TEST_P(CollectivesContract, ReduceScatterReducesEveryTypeAndOperationToUnevenParts) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    for_each_type([&](auto zero) {
      for (int op = 0; op < kElementwiseOpCount; ++op)
        for (const std::size_t base : {0, 1, 300, 5003})
          check_reduce_scatter<decltype(zero)>(collectives, rank, size, uneven_parts(size, base),
                                               ReduceOp(op));
      check_reduce_scatter<decltype(zero)>(
          collectives, rank, size, std::vector<std::size_t>(static_cast<std::size_t>(size), 67),
          ReduceOp::kAverage);
    });
  });
}

TEST_P(CollectivesContract, AlltoallExchangesBlocksOfAnySizePerPair) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    for (const std::size_t base : {0, 1, 5, 1021, 4096, 40001}) {
      check_alltoall(collectives, rank, size, uneven_pairs(base));
      check_alltoall(collectives, rank, size, [&](auto, auto) { return base; });
    }
  });
}

TEST_P(CollectivesContract, AlltoallOfFewPairsEndsOnEveryRank) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    const auto n = static_cast<std::size_t>(size);
    for (const std::size_t bytes : {1, 30011}) {
      const PairBytes patterns[] = {
          [&](auto r, auto s) { return r == s ? bytes : 0; },
          [&](auto r, auto s) { return r == 0 && s == n - 1 ? bytes : 0; },
          [&](auto r, auto) { return r == n / 2 ? bytes : 0; },
          [&](auto, auto s) { return s == n / 2 ? bytes : 0; },
          [&](auto r, auto s) { return s == (r + 1) % n ? bytes * (r + 1) : 0; }};
      for (const PairBytes& pattern : patterns) check_alltoall(collectives, rank, size, pattern);
    }
  });
}

TEST_P(CollectivesContract, BarrierHoldsUntilTheLastRankArrives) {
  // Each rank in turn arrives late; the others must not leave before it has arrived. Times are
  // compared on the machine's one clock, which threads and processes share.
  GetParam().run([](Collectives& collectives, int rank, int size) {
    using Clock = std::chrono::steady_clock;
    for (int late = 0; late < size; ++late) {
      if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::int64_t times[2] = {Clock::now().time_since_epoch().count(), 0};
      collectives.barrier();
      times[1] = Clock::now().time_since_epoch().count();
      std::vector<std::int64_t> all(static_cast<std::size_t>(size) * 2);
      const std::vector<std::size_t> bytes_of(static_cast<std::size_t>(size), sizeof times);
      collectives.allgather(std::as_bytes(std::span(times)), bytes_of,
                            std::as_writable_bytes(std::span(all)));
      for (int r = 0; r < size; ++r)
        ASSERT_GE(all[2 * static_cast<std::size_t>(r) + 1], all[2 * static_cast<std::size_t>(late)])
            << "rank " << r << " left before rank " << late << " came";
    }
  });
}

// Sums that round: the bits must be the same on every rank and in every run.
template <Element T>
std::uint64_t rounded_sum(Collectives& collectives, int rank, std::size_t count, ReduceOp op) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  PiecedArray<T> array(count, Cut::kOddPieces);
  for (std::size_t i = 0; i < count; ++i)
    array.set(i, T(std::ldexp(static_cast<float>(random()) - 2e9f,
                              static_cast<int>(random() % 20) - 40)));
  collectives.allreduce(array.buffer(), op);
  Hash hash;
  for (std::size_t i = 0; i < count; ++i) {
    const T value = array.get(i);
    hash.add_bytes(&value, sizeof value);
  }
  return hash.value();
}

TEST_P(CollectivesContract, RoundedResultsAreTheSameBitsOnAllRanksAndInAllRuns) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    std::vector<std::uint64_t> hashes;
    for (int run = 0; run < 3; ++run)
      for (const std::size_t count : {std::size_t{1}, std::size_t{33}, kLarge}) {
        hashes.push_back(rounded_sum<float>(collectives, rank, count, ReduceOp::kSum));
        hashes.push_back(rounded_sum<double>(collectives, rank, count, ReduceOp::kAverage));
        hashes.push_back(rounded_sum<Float16>(collectives, rank, count, ReduceOp::kAverage));
        hashes.push_back(rounded_sum<BFloat16>(collectives, rank, count, ReduceOp::kProduct));
      }
    const std::size_t per_run = hashes.size() / 3;
    for (std::size_t i = per_run; i < hashes.size(); ++i) ASSERT_EQ(hashes[i], hashes[i % per_run]);
    std::vector<std::uint64_t> all(hashes.size() * static_cast<std::size_t>(size));
    const std::vector<std::size_t> bytes_of(static_cast<std::size_t>(size), hashes.size() * 8);
    collectives.allgather(bytes_of_vector(hashes), bytes_of,
                          std::as_writable_bytes(std::span(all)));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], hashes[i % hashes.size()]);
  });
}

TEST_P(CollectivesContract, AnyMixOfCollectivesRunsBackToBack) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    std::mt19937 random(7);  // the same on all ranks
    for (std::size_t round = 0; round < 150; ++round) {
      const auto parts = uneven_parts(size, random() % 700);
      const std::size_t count = random() % 3 == 0 ? random() % kLarge : random() % 100;
      const Cut cut = random() % 2 ? Cut::kWhole : Cut::kOddPieces;
      const int root = static_cast<int>(random() % static_cast<unsigned>(size));
      const auto op = static_cast<ReduceOp>(random() % kElementwiseOpCount);
      switch (random() % 7) {
        case 0:
          check_allreduce<float>(collectives, rank, size, count, op, cut, round);
          break;
        case 1:
          check_allreduce<BFloat16>(collectives, rank, size, count, op, cut, round);
          break;
        case 2:
          check_broadcast<std::int64_t>(collectives, rank, count, root, cut, round);
          break;
        case 3:
          check_allgather(collectives, rank, parts, round % 2 == 0);
          break;
        case 4:
          check_reduce_scatter<float>(collectives, rank, size, parts, op);
          break;
        case 5:
          check_alltoall(collectives, rank, size, uneven_pairs(count), round);
          break;
        default:
          collectives.barrier();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace horo::collectives::contract
