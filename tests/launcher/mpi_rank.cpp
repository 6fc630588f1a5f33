// A rank that communicates through MPI's shared memory, prints "ready" and sleeps until it is
// stopped.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<float> values(1 << 18, 1.0F);
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  std::puts("ready");
  std::fflush(stdout);
  sleep(300);
  MPI_Finalize();
  return 0;
}
