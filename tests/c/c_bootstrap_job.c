/* A C program that calls MPI_Init, and gives horo an allgather in place of a communicator. */
#include <mpi.h>
#include <stdio.h>

#include "horo/horo_c.h"

static int calls = 0;

static int allgather(const void* own, size_t bytes, void* all, void* data) {
  ++calls;
  return MPI_Allgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm*)data);
}

static int refuse(const void* own, size_t bytes, void* all, void* data) {
  return own == NULL || bytes == 0 || all == data ? 2 : 1;
}

int main(int argc, char** argv) {
  int failures = 0, sum;
  MPI_Comm world = MPI_COMM_WORLD;
  horo_context* job = NULL;
  horo_bootstrap bootstrap = {sizeof(horo_bootstrap), 0, 0, refuse, NULL};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &bootstrap.rank);
  MPI_Comm_size(world, &bootstrap.rank_count);
  if (horo_init_bootstrap(&bootstrap, &job) != HORO_COMMUNICATION_ERROR) {
    fprintf(stderr, "a failed allgather was ignored\n");
    failures = 1;
  }
  bootstrap.allgather = allgather;
  bootstrap.data = &world;
  if (horo_init_bootstrap(&bootstrap, &job) != HORO_OK || calls == 0) {
    fprintf(stderr, "rank %d: %s\n", bootstrap.rank, horo_last_error());
    return 1;
  }
  MPI_Finalize();
  sum = bootstrap.rank + 1;
  if (horo_rank(job) != bootstrap.rank || horo_size(job) != bootstrap.rank_count ||
      horo_allreduce(job, &sum, 1, HORO_INT32, HORO_SUM, "ranks") != HORO_OK ||
      sum != bootstrap.rank_count * (bootstrap.rank_count + 1) / 2 || horo_shutdown(job) != HORO_OK) {
    fprintf(stderr, "rank %d: sum %d; last error: %s\n", bootstrap.rank, sum, horo_last_error());
    failures = 1;
  }
  return failures;
}
