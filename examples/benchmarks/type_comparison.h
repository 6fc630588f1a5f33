#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "examples/benchmarks/algorithm_contexts.h"
#include "examples/benchmarks/collective_kind.h"
#include "horo/horo.h"

namespace horo::bench {

struct TypeComparison {
  std::vector<CollectiveKind> collectives;
  std::vector<DataType> types;  ///< the first is what the others are compared with
  ReduceOp op = ReduceOp::kSum;
  std::vector<std::size_t> sizes;  ///< bytes of the first type
};

/// Measures horo's collectives with each type in turn, all at the same number of elements, prints a
/// line for each number, and returns the rows. The ratio of a type is its time over the first's,
/// the median of the ratios of the rounds, in each of which the two were measured one after the
/// other. Collective.
nlohmann::json compare_types(AlgorithmContexts& contexts, const TypeComparison& comparison,
                             int rounds);

}  // namespace horo::bench
