#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/collectives.h"

namespace horo::collectives::contract {

/// The numbers of ranks that every implementation is checked with.
inline constexpr int kRankCounts[] = {1, 2, 3, 4, 7, 8};

/// What one rank does with the collectives under test.
using RankFunction = std::function<void(Collectives& collectives, int rank, int size)>;

/// In which order values are combined, where the implementation says so.
enum class Order {
  kOwn,   ///< not said
  kRank,  ///< from rank 0 on, 16-bit floats rounded once
  kRing,  ///< from the rank after the owner of the chunk on, 16-bit floats rounded at every hop
};

/// A way to run ranks, and the collectives to check. The suite, in the files *_contract.cpp beside
/// this, is instantiated by each implementation:
///
///     INSTANTIATE_TEST_SUITE_P(Ring, CollectivesContract, testing::ValuesIn(backends), case_name);
struct Backend {
  std::string name;  ///< letters, digits and underscores
  /// Runs the function on every rank, each with its own Collectives of one group, and throws or
  /// fails if a rank does.
  std::function<void(const RankFunction&)> run;
  /// Sizes of a buffer, in bytes, at which the implementation takes another way, or one step more.
  std::vector<std::size_t> boundaries = {};
  Order allreduce_order = Order::kOwn;
  Order reduce_scatter_order = Order::kOwn;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

class CollectivesContract : public testing::TestWithParam<Backend> {};
/// What holds in addition where the order of combination is documented.
class OrderContract : public CollectivesContract {};

/// Those of `backends` whose order is documented.
inline std::vector<Backend> with_documented_order(std::vector<Backend> backends) {
  std::erase_if(backends, [](const Backend& b) { return b.allreduce_order == Order::kOwn; });
  return backends;
}

inline std::string case_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

}  // namespace horo::collectives::contract
