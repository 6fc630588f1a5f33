/* A C program with its own MPI: horo works on a communicator of half of the ranks. */
#include <mpi.h>
#include <stdio.h>

#include "horo/horo_c.h"

int main(int argc, char** argv) {
  int provided, rank, size, failures = 0;
  MPI_Comm half;
  horo_context* job;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Comm_size(half, &size);
  int sum = rank;
  if (horo_init_communicator(&half, &job) != HORO_OK || horo_size(job) != size || horo_rank(job) != rank / 2 ||
      horo_allreduce(job, &sum, 1, HORO_INT32, HORO_SUM, "ranks") != HORO_OK ||
      sum != size * (size - 1) + size * (rank % 2) || horo_shutdown(job) != HORO_OK) {
    fprintf(stderr, "rank %d: sum %d of %d ranks; last error: %s\n", rank, sum, size, horo_last_error());
    failures = 1;
  }
  MPI_Comm_free(&half);
  MPI_Finalize();
  return failures;
}
