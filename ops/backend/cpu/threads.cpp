#include "ops/backend/cpu/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include "horo/base/error.h"

namespace horo::ops {

void set_compute_threads(int threads) {
  HORO_CHECK(threads >= 1,
             fmt::format("the number of compute threads is {}; must be at least 1", threads));
  // oneDNN computes with OpenMP threads. The setting applies to the calling thread. Another number
  // of threads changes the order of some sums.
  omp_set_num_threads(threads);
}

int compute_threads() { return omp_get_max_threads(); }

}  // namespace horo::ops
