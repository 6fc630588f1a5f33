#pragma once

#include <cstddef>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// The arguments of one reduction kernel; see reduce().
struct ReduceArguments {
  const std::byte* const* sources;
  std::size_t source_count;  ///< at least 1
  std::size_t count;         ///< elements
  std::size_t divisor;
  std::byte* const* outs;
  std::size_t out_count;  ///< at least 1
  bool is_streaming;
};

/// The kernels of one instruction set. Call them only on processors that support the instruction
/// set.
struct KernelTable {
  const char* instruction_set;
  /// The kernel for each DataType (first index) and ReduceOp (second index).
  void (*reduce[kDataTypeCount][kElementwiseOpCount])(const ReduceArguments&);
  /// Entry 0 is for kFloat16, entry 1 for kBFloat16; see narrow() and widen().
  void (*narrow[2])(std::byte* to, const std::byte* from, std::size_t count);
  void (*widen[2])(std::byte* to, const std::byte* from, std::size_t count);
  void (*plain_copy)(std::byte* to, const std::byte* from, std::size_t bytes);
  void (*streaming_copy)(std::byte* to, const std::byte* from, std::size_t bytes);
  void (*fence)();
};

namespace portable {
extern const KernelTable kTable;
}
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}

/// Returns the table of the widest instruction set that has a table and that this processor
/// supports.
const KernelTable& best_kernel_table();

}  // namespace horo::collectives
