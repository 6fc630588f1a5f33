#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/collectives.h"

namespace horo::collectives::contract {

/// The numbers of ranks with which every implementation is tested.
inline constexpr int kRankCounts[] = {1, 2, 3, 4, 7, 8};

/// The code of one rank, with its collectives under test.
using RankFunction = std::function<void(Collectives& collectives, int rank, int size)>;

/// The documented order in which an implementation combines values.
enum class Order {
  kOwn,   ///< not documented
  kRank,  ///< starting at rank 0; 16-bit floats are rounded once
  kRing,  ///< starting after the owner of the chunk; 16-bit floats are rounded per hop
};

/// A way to run ranks with the collectives under test. Each implementation instantiates the suite,
/// which is in the files *_contract.cpp of this folder:
///
///     INSTANTIATE_TEST_SUITE_P(Ring, CollectivesContract, testing::ValuesIn(backends), case_name);
struct Backend {
  std::string name;  ///< letters, digits and underscores
  /// Runs the function on every rank, each with its own Collectives of one group. Throws or fails
  /// if any rank does.
  std::function<void(const RankFunction&)> run;
  /// The buffer sizes, in bytes, above which the implementation switches the algorithm or takes one
  /// more step.
  std::vector<std::size_t> boundaries = {};
  Order allreduce_order = Order::kOwn;
  Order reduce_scatter_order = Order::kOwn;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

class CollectivesContract : public testing::TestWithParam<Backend> {};
/// Additional tests for backends with a documented order of combination.
class OrderContract : public CollectivesContract {};

/// Returns the backends whose order is documented.
inline std::vector<Backend> with_documented_order(std::vector<Backend> backends) {
  std::erase_if(backends, [](const Backend& b) { return b.allreduce_order == Order::kOwn; });
  return backends;
}

inline std::string case_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

}  // namespace horo::collectives::contract
