#pragma once

namespace horo::ops {

/// Makes the process keep the host memory that it frees, so that the tensors of the next step reuse
/// pages that exist already. Otherwise the C library returns large blocks to the kernel, which
/// fills new pages with zeros in every step. The process then occupies its largest amount of memory
/// until it ends. For programs that train; the library does not call it. Has an effect with glibc
/// only. Call it before other threads start.
void keep_freed_memory();

}  // namespace horo::ops
