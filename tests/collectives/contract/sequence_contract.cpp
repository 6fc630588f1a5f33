#include <chrono>
#include <random>
#include <thread>

#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/contract_sizes.h"
#include "tests/collectives/contract/copy_checks.h"
#include "tests/collectives/contract/reduction_checks.h"

namespace horo::collectives::contract {
namespace {

TEST_P(CollectivesContract, BarrierWaitsForLastRank) {
  // Each rank in turn arrives late, and no other rank may return before it has arrived. All ranks
  // run on one machine and use its steady clock, so their times are comparable.
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

template <Element T>
void check_reductions(Collectives& collectives, int rank, int size, std::size_t count, ReduceOp op,
                      Cut cut, std::size_t round) {
  const auto parts = uneven_parts(size, count);
  const std::size_t most = std::accumulate(parts.begin(), parts.end(), count);
  const auto own = contributions<T>(rank, most, op, round);
  const auto expected = expected_values<T>(size, most, op, round);
  check_allreduce(collectives, count, op, cut, own, expected);
  if (round % 2 == 0) check_reduce_scatter(collectives, rank, parts, op, own, expected);
}

TEST_P(CollectivesContract, MixedCollectivesRunBackToBack) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    std::mt19937 random(7);  // the same on all ranks
    for (std::size_t round = 0; round < 150; ++round) {
      const std::size_t count = random() % 3 == 0 ? random() % 7001 : random() % 100;
      const Cut cut = random() % 2 ? Cut::kWhole : Cut::kOddPieces;
      const int root = static_cast<int>(random() % static_cast<unsigned>(size));
      const auto op = static_cast<ReduceOp>(random() % kElementwiseOpCount);
      switch (random() % 6) {
        case 0:
          check_reductions<float>(collectives, rank, size, count, op, cut, round);
          break;
        case 1:
          check_reductions<BFloat16>(collectives, rank, size, count, op, cut, round);
          break;
        case 2:
          check_broadcast<std::int64_t>(collectives, rank, count, root, cut, round);
          break;
        case 3:
          check_allgather(collectives, rank, uneven_parts(size, count), round % 2 == 0);
          break;
        case 4:
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
