#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "tests/collectives/contract/exact_values.h"
#include "tests/collectives/contract/pieced_array.h"

namespace horo::collectives::contract {

/// Reduces the first `count` of `own`, the values of this rank, and compares bit by bit with the
/// first of `expected`.
template <Element T>
void check_allreduce(Collectives& collectives, std::size_t count, ReduceOp op, Cut cut,
                     const std::vector<T>& own, const std::vector<T>& expected) {
  PiecedArray<T> array(count, cut);
  for (std::size_t i = 0; i < count; ++i) array.set(i, own[i]);
  collectives.allreduce(array.buffer(), op);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_TRUE(same_bits(array.get(i), expected[i]))
        << "allreduce " << name_of(data_type_of<T>) << " " << name_of(op) << " element " << i
        << " of " << count;
  ASSERT_TRUE(array.guards_are_intact());
}

/// The same for a reduce_scatter of all of `own`.
template <Element T>
void check_reduce_scatter(Collectives& collectives, int rank,
                          const std::vector<std::size_t>& count_of, ReduceOp op,
                          const std::vector<T>& own, const std::vector<T>& expected) {
  const auto begin = std::accumulate(count_of.begin(), count_of.begin() + rank, std::size_t{0});
  const std::size_t total = std::accumulate(count_of.begin(), count_of.end(), std::size_t{0});
  const std::vector<T> input(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(total));
  std::vector<T> output(count_of[static_cast<std::size_t>(rank)]);
  collectives.reduce_scatter(reinterpret_cast<const std::byte*>(input.data()), data_type_of<T>,
                             count_of, reinterpret_cast<std::byte*>(output.data()), op);
  for (std::size_t i = 0; i < output.size(); ++i)
    ASSERT_TRUE(same_bits(output[i], expected[begin + i]))
        << "reduce_scatter " << name_of(data_type_of<T>) << " " << name_of(op) << " element " << i
        << " of " << output.size();
  for (std::size_t i = 0; i < total; ++i)
    ASSERT_TRUE(same_bits(input[i], own[i])) << "reduce_scatter changed its input";
}

}  // namespace horo::collectives::contract
