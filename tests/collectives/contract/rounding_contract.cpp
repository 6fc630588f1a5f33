#include "horo/base/hash.h"
#include "tests/collectives/contract/collectives_contract.h"
#include "tests/collectives/contract/contract_sizes.h"
#include "tests/collectives/contract/reduction_checks.h"
#include "tests/collectives/contract/rounded_values.h"

namespace horo::collectives::contract {
namespace {

constexpr ReduceOp kRoundingOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct};
constexpr std::size_t kCounts[] = {1, 33, 5003};

template <typename Function>
void for_each_float(Function&& function) {
  function(float{});
  function(double{});
  function(Float16{});
  function(BFloat16{});
}

template <Element T>
std::vector<T> own_values(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = rounding_value<T>(rank, i);
  return values;
}

template <Element T>
std::vector<T> results(int size, std::size_t count, ReduceOp op, Order order) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = rounded_result<T>(size, count, i, op, order);
  return values;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OrderContract);

TEST_P(OrderContract, RoundedResultsFollowDocumentedOrder) {
  GetParam().run([&](Collectives& collectives, int rank, int size) {
    for_each_float([&]<typename T>(T) {
      for (const ReduceOp op : kRoundingOps)
        for (const std::size_t count : kCounts) {
          const auto own = own_values<T>(rank, count);
          check_allreduce(collectives, count, op, Cut::kOddPieces, own,
                          results<T>(size, count, op, GetParam().allreduce_order));
          check_reduce_scatter(collectives, rank,
                               chunk_sizes(count, static_cast<std::size_t>(size)), op, own,
                               results<T>(size, count, op, GetParam().reduce_scatter_order));
        }
    });
  });
}

template <Element T>
std::uint64_t hash_of_allreduce(Collectives& collectives, int rank, std::size_t count,
                                ReduceOp op) {
  std::vector<T> values = own_values<T>(rank, count);
  collectives.allreduce(ScatteredBuffer(data_type_of<T>, values.data(), count), op);
  return Hash().add_bytes(values.data(), count * sizeof(T)).value();
}

TEST_P(CollectivesContract, RoundedResultsAreReproducible) {
  GetParam().run([](Collectives& collectives, int rank, int size) {
    std::vector<std::uint64_t> hashes;
    for (int run = 0; run < 3; ++run)
      for_each_float([&]<typename T>(T) {
        for (const ReduceOp op : kRoundingOps)
          for (const std::size_t count : kCounts)
            hashes.push_back(hash_of_allreduce<T>(collectives, rank, count, op));
      });
    const std::size_t per_run = hashes.size() / 3;
    for (std::size_t i = per_run; i < hashes.size(); ++i) ASSERT_EQ(hashes[i], hashes[i % per_run]);
    std::vector<std::uint64_t> all(hashes.size() * static_cast<std::size_t>(size));
    collectives.allgather(std::as_bytes(std::span(hashes)), even_parts(size, hashes.size() * 8),
                          std::as_writable_bytes(std::span(all)));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], hashes[i % hashes.size()]);
  });
}

}  // namespace
}  // namespace horo::collectives::contract
