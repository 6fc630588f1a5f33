#pragma once

#include "ops/kernels/cpu/onednn.h"

// Private to ops/kernels/cpu.

namespace horo::ops::cpu {

/// One argument of a primitive at the border between horo's row-major arrays and the layout that
/// the primitive asked for. Where the two agree nothing is copied; otherwise it owns an array in
/// the primitive's layout and the reorders. Used from one thread at a time.
class BlockedArgument {
 public:
  BlockedArgument(const Processor& processor, const dnnl::memory::desc& outside,
                  const dnnl::memory::desc& inside);

  /// For a source: the values of `outside`, in the primitive's layout. The array is read now or
  /// during the primitive's execution: keep it until then.
  const dnnl::memory& load(const Processor& processor, const float* outside);
  /// For a destination: where the primitive writes. After its execution, store() delivers.
  const dnnl::memory& target(float* outside);
  void store(const Processor& processor);

 private:
  bool is_direct_;
  dnnl::memory outside_;
  dnnl::memory inside_;
  dnnl::reorder reorder_in_;
  dnnl::reorder reorder_out_;
};

}  // namespace horo::ops::cpu
