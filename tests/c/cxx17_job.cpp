// A program in C++17 with its own MPI that uses libhoro_c under mpirun: a job of all ranks, jobs of
// the ranks with even and with odd numbers, and a job for which horo uses no MPI.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "horo/horo_cxx17.h"

static_assert(__cplusplus == 201703L, "this program must be compiled as C++17");
namespace hv = horo::cxx17;

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void use_all_ranks() {
  hv::Context job = hv::init();
  require(hv::version() == horo_version(), "version");
  std::vector<float> w(1001, static_cast<float>(job.rank()));
  job.allreduce(w, {"w", hv::ReduceOp::kSum});
  require(w[1000] == static_cast<float>(job.size() * (job.size() - 1) / 2), "allreduce");

  std::vector<float> g(33, static_cast<float>(job.rank()));
  hv::GradientSync sync(job, {{"w", w}, {"g", g}});
  sync.ready(1);
  sync.ready(0);
  require(sync.wait().was_exchanged != 0, "was_exchanged");
  require(g[32] == static_cast<float>(job.size() - 1) / 2, "average");

  bool is_mismatch = false;
  try {
    job.allreduce(hv::TensorView(w.data(), {job.rank() == 0 ? 2U : 1U}), {"uneven"});
  } catch (const hv::MismatchError&) {
    is_mismatch = true;
  }
  require(is_mismatch == (job.size() > 1), "MismatchError");
}  // leaves the job

void use_half_of_the_ranks() {
  int rank = 0;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  hv::Context job = hv::init_communicator(&half);
  std::vector<std::int32_t> sum{rank};
  job.allreduce(sum, {"ranks", hv::ReduceOp::kSum});
  require(job.rank() == rank / 2 && sum[0] == job.size() * (job.size() - 1 + rank % 2),
          "communicator");
  job.shutdown();
  MPI_Comm_free(&half);
}

void use_a_bootstrap() {
  hv::Bootstrap bootstrap;
  MPI_Comm_rank(MPI_COMM_WORLD, &bootstrap.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &bootstrap.size);
  bootstrap.allgather = [](const std::byte* own, std::size_t bytes, std::byte* all) {
    MPI_Allgather(own, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE,
                  MPI_COMM_WORLD);
  };
  hv::Context job = hv::init(bootstrap);
  std::vector<double> sum{1.5};
  job.allreduce(sum, {"sum", hv::ReduceOp::kSum});
  require(job.rank() == bootstrap.rank && sum[0] == 1.5 * bootstrap.size, "bootstrap");
  job.shutdown();

  bootstrap.allgather = [](const std::byte*, std::size_t, std::byte*) {
    throw std::out_of_range("planted");
  };
  bool is_rethrown = false;
  try {
    hv::init(bootstrap);
  } catch (const std::out_of_range&) {
    is_rethrown = true;
  }
  require(is_rethrown, "error of the bootstrap");
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  try {
    use_all_ranks();
    use_half_of_the_ranks();
    use_a_bootstrap();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cxx17_job: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
