#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "collectives/collectives.h"

namespace horo::collectives::contract {

/// What one rank does with the collectives under test.
using RankFunction = std::function<void(Collectives& collectives, int rank, int size)>;

/// A way to run ranks, and the collectives to check. The suite, in collectives_contract.cpp, is
/// instantiated by each implementation:
///
///     INSTANTIATE_TEST_SUITE_P(Ring, CollectivesContract, testing::ValuesIn(backends), case_name);
struct Backend {
  std::string name;  ///< letters, digits and underscores
  /// Runs the function on every rank, each with its own Collectives of one group, and throws or
  /// fails if a rank does.
  std::function<void(const RankFunction&)> run;
};

class CollectivesContract : public testing::TestWithParam<Backend> {};

inline std::string case_name(const testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

}  // namespace horo::collectives::contract
