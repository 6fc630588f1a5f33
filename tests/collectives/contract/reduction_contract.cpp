#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/contract_sizes.h"
#include "tests/collectives/contract/reduction_checks.h"
#include "tests/support/sanitizer.h"

namespace horo::collectives::contract {
namespace {

// Calls function(zero of the type, op) for every type and operation.
template <typename Function>
void for_each_reduction(Function&& function) {
  for_each_type([&](auto zero) {
    for (int op = 0; op < kElementwiseOpCount; ++op)
      if (is_tested(static_cast<ReduceOp>(op))) function(zero, static_cast<ReduceOp>(op));
  });
}

TEST_P(CollectivesContract, AllreduceMatchesReference) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    for_each_reduction([&]<typename T>(T, ReduceOp op) {
      const auto counts = sizes_for(GetParam(), size, sizeof(T));
      const auto own = contributions<T>(rank, counts.back(), op);
      const auto expected = expected_values<T>(size, counts.back(), op);
      for (const std::size_t count : counts) {
        const bool is_whole = (count + static_cast<std::size_t>(op)) % 2 == 0;
        check_allreduce(collectives, count, op, is_whole ? Cut::kWhole : Cut::kOddPieces, own,
                        expected);
      }
    });
  });
}

TEST_P(CollectivesContract, ReduceScatterMatchesReference) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    const auto n = static_cast<std::size_t>(size);
    for_each_reduction([&]<typename T>(T, ReduceOp op) {
      const auto counts = sizes_for(GetParam(), size, sizeof(T));
      const std::size_t largest_part = counts.back() / 3;
      const std::size_t most = std::max((largest_part + 8) * n, counts.back());
      const auto own = contributions<T>(rank, most, op);
      const auto expected = expected_values<T>(size, most, op);
      // Tests parts that are near a boundary individually, and parts that are near it in total.
      for (const std::size_t count : counts) {
        check_reduce_scatter(collectives, rank, even_parts(size, count / n), op, own, expected);
        if (count > largest_part) continue;
        check_reduce_scatter(collectives, rank, even_parts(size, count), op, own, expected);
        check_reduce_scatter(collectives, rank, uneven_parts(size, count), op, own, expected);
      }
    });
  });
}

}  // namespace
}  // namespace horo::collectives::contract
