/* A C program that uses libhoro_c under mpirun. Prints one line per failed check. */
#include <stdio.h>
#include <string.h>

#include "horo/horo_c.h"

static int failures = 0;
#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      ++failures;                                                                         \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, horo_last_error()); \
    }                                                                                     \
  } while (0)

static void exchange(horo_context* job) {
  const int rank = horo_rank(job), size = horo_size(job);
  float gradient[1001], weight[3] = {(float)rank, 1, 2};
  for (int i = 0; i < 1001; ++i) gradient[i] = (float)(rank + i);
  const horo_tensor gradients[] = {{"weight", weight, HORO_FLOAT32, 3}, {"bias", gradient, HORO_FLOAT32, 1001}};
  horo_gradient_sync* sync;
  CHECK(horo_gradient_sync_create(job, gradients, 2, NULL, &sync) == HORO_OK);
  CHECK(horo_gradient_sync_ready(sync, 1) == HORO_OK);
  CHECK(horo_gradient_sync_ready(sync, 0) == HORO_OK);
  CHECK(horo_gradient_sync_wait(sync) == HORO_OK);
  for (int i = 0; i < 1001; ++i) CHECK(gradient[i] == (float)i + (float)(size - 1) / 2);
  CHECK(weight[0] == (float)(size - 1) / 2);
  horo_gradient_sync_destroy(sync);
  /* Ranks disagree: every rank gets the same error, and the job continues. */
  CHECK(horo_allreduce(job, gradient, rank == 0 ? 2 : 1, HORO_FLOAT32, HORO_SUM, "uneven") ==
        (size > 1 ? HORO_MISMATCH : HORO_OK));
  double value = rank;
  CHECK(horo_allreduce(job, &value, 1, HORO_FLOAT64, HORO_MAX, NULL) == HORO_OK && value == size - 1);
}

int main(void) {
  horo_context* job;
  CHECK(strlen(horo_version()) > 0);
  CHECK(horo_init(&job) == HORO_OK);
  if (failures > 0) return 1;
  exchange(job);
  CHECK(horo_shutdown(job) == HORO_OK);
  return failures == 0 ? 0 : 1;
}
