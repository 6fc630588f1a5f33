#include "ops/tensor/host_memory.h"

#include <cstdlib>  // defines __GLIBC__ with glibc

#ifdef __GLIBC__
#include <malloc.h>

#include <limits>
#endif

namespace horo::ops {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // bytes; larger blocks are returned at once
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace horo::ops
