// A user's program with an MPI of its own, which the installed horo need not know.
#include <horo/horo.h>
#include <horo/mpi_bootstrap.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(library, &length);
  int failures = 0;
  {
    horo::Context context = horo::init(horo::bootstrap_over(MPI_COMM_WORLD));
    std::vector<float> values(100000, static_cast<float>(context.rank() + 1));
    const std::vector<horo::NamedTensor> gradients = {{"values", horo::TensorView(values)}};
    horo::GradientSync sync(context, gradients);
    sync.exchange();
    const auto expected = static_cast<float>(context.size() + 1) / 2;
    for (const float value : values) failures += value != expected;
    std::printf("rank %d of %d: %g in place of %g, with %.30s\n", context.rank(), context.size(),
                values[0], expected, library);
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
