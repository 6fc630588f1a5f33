#pragma once

#include <cstddef>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// What one reduction kernel is given; see reduce() for the meaning of each.
struct ReduceArguments {
  const std::byte* const* sources;
  std::size_t source_count;  ///< at least 1
  std::size_t count;         ///< elements
  std::size_t divisor;
  std::byte* const* outs;
  std::size_t out_count;  ///< at least 1
  bool is_streaming;
};

/// The kernels of one instruction set. Safe to call only where that instruction set exists.
struct KernelTable {
  const char* instruction_set;
  void (*reduce[kDataTypeCount][kElementwiseOpCount])(const ReduceArguments&);
  /// Of kFloat16, then kBFloat16; see narrow() and widen().
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

/// The best table for the processor that runs this.
const KernelTable& best_kernel_table();

}  // namespace horo::collectives
