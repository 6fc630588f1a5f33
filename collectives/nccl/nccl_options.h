#pragma once

namespace horo::collectives {

/// How NCCL runs the collectives of a communicator. Must be equal on all ranks.
struct NcclOptions {
  /// The largest number of blocks of threads that a collective uses. Each block occupies a part of
  /// one multiprocessor, which computation can then not use. 0: NCCL decides. NCCL_MAX_CTAS, if
  /// set, takes precedence.
  int max_ctas = 0;
  /// If true, NCCL's calls block until NCCL has submitted the work, and NCCL starts no thread for
  /// them. Neither a timeout nor abort() then ends a call. Only for benchmarks.
  bool is_blocking = false;
};

}  // namespace horo::collectives
