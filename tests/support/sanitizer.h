#pragma once

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

/// Threads race on a path or do not, whatever is summed there, and under the thread sanitizer
/// values take thirty times as long: there a path is taken with these types, and everywhere else
/// with all.
constexpr bool is_tested(DataType type) {
  return !kHasThreadSanitizer || type == DataType::kFloat32 || type == DataType::kBFloat16 ||
         type == DataType::kInt8;
}
/// Nor does what a path accesses depend on the operation.
constexpr bool is_tested(ReduceOp op) {
  return !kHasSanitizer || op == ReduceOp::kAverage || op == ReduceOp::kMax;
}

}  // namespace horo
