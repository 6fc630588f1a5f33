#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "tests/collectives/contract/contract_values.h"
#include "tests/support/sanitizer.h"

namespace horo::collectives::contract {

/// The first `count` contributions of one rank.
template <Element T>
std::vector<T> contributions(int rank, std::size_t count, ReduceOp op, std::size_t round = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = contribution<T>(rank, i, op, round);
  return values;
}

/// The reduction of the first `count` contributions of all ranks.
template <Element T>
std::vector<T> expected_values(int size, std::size_t count, ReduceOp op, std::size_t round = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = expected_value<T>(size, i, op, round);
  return values;
}

template <typename T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Calls function(T{}) for every tested element type, except bool: std::vector<bool> does not store
/// bytes. The reductions of bool are those of std::uint8_t.
template <typename Function>
void for_each_type(Function&& function) {
  for (int type = 0; type < kDataTypeCount; ++type)
    if (is_tested(static_cast<DataType>(type)))
      visit_type(static_cast<DataType>(type), [&]<typename T>(T zero) {
        if constexpr (!std::is_same_v<T, bool>) function(zero);
      });
}

}  // namespace horo::collectives::contract
