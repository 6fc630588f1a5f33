#include <mpi.h>

#include <memory>
#include <oneapi/ccl.hpp>

#include "examples/benchmarks/peers/peer_library.h"

namespace horo::bench::peer_library {
namespace {
std::unique_ptr<ccl::communicator> all_ranks;
}

void start(int* argc, char*** argv) {
  int level = 0, rank = 0, ranks = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ccl::init();
  std::shared_ptr<ccl::kvs> addresses;
  ccl::kvs::address_type of_rank_0;
  if (rank == 0) {
    addresses = ccl::create_main_kvs();
    of_rank_0 = addresses->get_address();
  }
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) addresses = ccl::create_kvs(of_rank_0);
  all_ranks = std::make_unique<ccl::communicator>(ccl::create_communicator(ranks, rank, addresses));
}

void stop() {
  all_ranks.reset();
  MPI_Finalize();
}

void sum(float* values, std::size_t count) {
  ccl::allreduce(values, values, count, ccl::reduction::sum, *all_ranks).wait();
}

}  // namespace horo::bench::peer_library
