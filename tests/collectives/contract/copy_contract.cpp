#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/contract_sizes.h"
#include "tests/collectives/contract/copy_checks.h"

namespace horo::collectives::contract {
namespace {

TEST_P(CollectivesContract, BroadcastCopiesFromEveryRoot) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    for (int root = 0; root < size; ++root)
      for_each_type([&]<typename T>(T) {
        for (const std::size_t count : sizes_for(GetParam(), size, sizeof(T)))
          check_broadcast<T>(
              collectives, rank, count, root,
              (count + static_cast<std::size_t>(root)) % 2 ? Cut::kWhole : Cut::kOddPieces);
      });
    // Ranks may split the same array into different pieces.
    check_broadcast<double>(collectives, rank, 7001, size - 1,
                            rank % 2 ? Cut::kWhole : Cut::kOddPieces);
  });
}

TEST_P(CollectivesContract, AllgatherConcatenatesPartsInRankOrder) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    for (const bool is_in_place : {false, true})
      for (const std::size_t bytes : sizes_for(GetParam(), size, 1)) {
        check_allgather(collectives, rank, uneven_parts(size, bytes), is_in_place);
        check_allgather(collectives, rank, even_parts(size, bytes), is_in_place);
      }
  });
}

TEST_P(CollectivesContract, AlltoallExchangesBlocksOfAnySize) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    for (const std::size_t bytes : sizes_for(GetParam(), size, 1)) {
      check_alltoall(collectives, rank, size, uneven_pairs(bytes));
      check_alltoall(collectives, rank, size, [&](auto, auto) { return bytes; });
    }
  });
}

TEST_P(CollectivesContract, AlltoallOfFewPairsCompletes) {
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

}  // namespace
}  // namespace horo::collectives::contract
