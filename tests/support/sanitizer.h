#pragma once

#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = kHasThreadSanitizer;
#endif

/// Whether tests cover `type` in this build. Sanitizer builds test only these types: they run up to
/// thirty times slower, and the memory accesses of a path do not depend on the type.
constexpr bool is_tested(DataType type) {
  return !kHasSanitizer || type == DataType::kFloat32 || type == DataType::kBFloat16 ||
         type == DataType::kInt8;
}
/// Whether tests cover `op` in this build. The memory accesses do not depend on the operation
/// either.
constexpr bool is_tested(ReduceOp op) {
  return !kHasSanitizer || op == ReduceOp::kAverage || op == ReduceOp::kMax;
}

/// Returns those of `counts` that tests of the API cover in this build. Sanitizer builds test at
/// most 4 ranks: two nodes with two ranks each use every path.
inline std::vector<int> tested_rank_counts(std::vector<int> counts) {
  if (kHasSanitizer) std::erase_if(counts, [](int ranks) { return ranks > 4; });
  return counts;
}

}  // namespace horo
