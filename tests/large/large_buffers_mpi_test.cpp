#include <mpi.h>

#include "collectives/mpi/mpi_transport.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/environment.h"
#include "tests/large/large_buffers.h"

namespace horo::collectives::large {
namespace {

class LargeBuffersOverMpi : public testing::Test {
 protected:
  // Either all ranks skip or none.
  void SetUp() override {
    const std::string text = skip_reason();
    int is_obstructed = text.empty() ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &is_obstructed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (is_obstructed) GTEST_SKIP() << (text.empty() ? "SKIPPED: another rank cannot" : text);
  }
  MpiTransport transport_{MPI_COMM_WORLD, {}, 0};
  int rank_ = transport_.topology().rank;
  std::unique_ptr<PointToPoint> peers_ = transport_.make_point_to_point();
  RingCollectives ring_{*peers_, Settings().ring_segment_bytes};
};

TEST_F(LargeBuffersOverMpi, BroadcastAlongTheRing) { check_broadcast(ring_, rank_); }
TEST_F(LargeBuffersOverMpi, AllreduceRoundTheRing) { check_allreduce(ring_, rank_); }
TEST_F(LargeBuffersOverMpi, ReduceScatterRoundTheRing) { check_reduce_scatter(ring_, rank_); }
TEST_F(LargeBuffersOverMpi, AllgatherRoundTheRing) { check_allgather(ring_, rank_); }
TEST_F(LargeBuffersOverMpi, AlltoallByPairs) { check_alltoall(ring_, rank_); }

// MPI counts are ints, so longer messages are split into pieces of 2^30 bytes.
TEST_F(LargeBuffersOverMpi, OneMessage) {
  Buffer buffer(kBytes);
  rank_ == 0 ? buffer.fill(7, 0, kBytes) : buffer.clear();
  const auto ticket = rank_ == 0 ? peers_->start_send(1, 0, buffer.all())
                                 : peers_->start_receive(0, 0, buffer.all());
  await(*peers_, ticket, "to exchange a message", "the other rank");
  check(buffer, 0, kBytes, [](std::size_t i) { return byte_of(7, i); });
}

TEST_F(LargeBuffersOverMpi, MpiAllreduceAndAllgather) {
  const auto reference = transport_.make_reference_collectives();
  check_allreduce(*reference, rank_);
  check_allgather(*reference, rank_);
}

}  // namespace
}  // namespace horo::collectives::large
