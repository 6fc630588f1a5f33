/* Fits a line to noisy points with gradient descent, in C, on any number of ranks.
 *
 *   hororun -np 2 build/release/bin/linear_regression_c
 *
 * Every rank computes the gradient of its share of the points. The average gradient, and therefore
 * every step, is that of one rank with all points, up to rounding. */
#include <stdio.h>
#include <stdlib.h>

#include "horo/horo_c.h"

enum { kPoints = 960, kSteps = 200 };

static void require(horo_status status, const char* what) {
  if (status == HORO_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, horo_status_name(status), horo_last_error());
  exit(1);
}

/* Point i of the data set: y = 3 x - 1 and some noise. */
static void point(int i, float* x, float* y) {
  const unsigned noise = (unsigned)i * 2654435761u >> 16;
  *x = (float)i / kPoints;
  *y = 3 * *x - 1 + ((float)(noise % 201) - 100) / 1000;
}

int main(void) {
  horo_context* job;
  require(horo_init(&job), "horo_init");
  const int rank = horo_rank(job), size = horo_size(job);
  const int first = kPoints * rank / size, last = kPoints * (rank + 1) / size;

  float slope = rank == 0 ? 0.5f : 0, offset = 0; /* all ranks start from the value of rank 0 */
  require(horo_broadcast(job, &slope, 1, HORO_FLOAT32, 0, "slope"), "horo_broadcast");

  float by_slope, by_offset, loss;
  const horo_tensor gradients[] = {{"slope", &by_slope, HORO_FLOAT32, 1},
                                   {"offset", &by_offset, HORO_FLOAT32, 1},
                                   {"loss", &loss, HORO_FLOAT32, 1}};
  horo_gradient_sync_options options = HORO_GRADIENT_SYNC_OPTIONS;
  options.weighted = 1; /* the shares of the points may differ by one */
  horo_gradient_sync* sync;
  require(horo_gradient_sync_create(job, gradients, 3, &options, &sync), "gradient_sync_create");
  require(horo_gradient_sync_set_weight(sync, last - first), "gradient_sync_set_weight");

  for (int step = 1; step <= kSteps; ++step) {
    by_slope = by_offset = loss = 0;
    for (int i = first; i < last; ++i) {
      float x, y;
      point(i, &x, &y);
      const float error = slope * x + offset - y;
      by_slope += 2 * error * x / (float)(last - first);
      by_offset += 2 * error / (float)(last - first);
      loss += error * error / (float)(last - first);
    }
    /* A network would call this for each gradient as soon as backward has computed it. */
    for (size_t i = 0; i < 3; ++i) require(horo_gradient_sync_ready(sync, i), "ready");
    require(horo_gradient_sync_wait(sync), "wait");
    slope -= 0.5f * by_slope;
    offset -= 0.5f * by_offset;
    if (rank == 0 && step % 50 == 0) printf("step %d: loss %.4f\n", step, loss);
  }
  if (rank == 0) printf("y = %.2f x %+.2f\n", slope, offset);

  horo_gradient_sync_destroy(sync);
  require(horo_shutdown(job), "horo_shutdown");
  return 0;
}
