#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Returns the error on rank 0 of 3 if rank 2 never takes part in `collective`.
std::string error_without_rank_2(const std::function<void(RingCollectives&)>& collective,
                                 MessageAllreduce allreduce = MessageAllreduce::kAuto) {
  InProcessJob::Options options;
  options.wait.timeout = std::chrono::milliseconds(100);
  InProcessJob job(3, options);
  std::string text;
  const auto take_part = [&](int rank, std::string& error) {
    const auto transport = job.transport(rank);
    const auto peers = transport->make_point_to_point();
    RingCollectives ring(*peers, 256, {"rank 0 (host a)", "rank 1 (host a)", "rank 2 (host b)"},
                         {allreduce});
    try {
      collective(ring);
    } catch (const CommunicationError& caught) {
      error = caught.what();
    }
  };
  std::string other;
  std::jthread rank_1([&] { take_part(1, other); });
  take_part(0, text);
  return text;
}

TEST(RingFailure, NamesMissingRankAndCollective) {
  EXPECT_THAT(
      error_without_rank_2(
          [](RingCollectives& ring) {
            std::vector<float> own(10000);
            ring.allreduce(ScatteredBuffer(DataType::kFloat32, own.data(), own.size()),
                           ReduceOp::kSum);
          },
          MessageAllreduce::kRing),
      AllOf(HasSubstr("waited"), HasSubstr("for rank 2 (host b) to send its part of an allreduce"),
            HasSubstr("0 of")));
  for (const auto allreduce :
       {MessageAllreduce::kExchange, MessageAllreduce::kDoubling, MessageAllreduce::kHalving})
    EXPECT_THAT(error_without_rank_2(
                    [](RingCollectives& ring) {
                      float own = 0;
                      ring.allreduce(ScatteredBuffer(DataType::kFloat32, &own, 1), ReduceOp::kSum);
                    },
                    allreduce),
                HasSubstr("for rank 2 (host b) to send its part of an allreduce"))
        << name_of(allreduce);
  EXPECT_THAT(error_without_rank_2([](RingCollectives& ring) {
                const std::vector<std::size_t> bytes(3, 5000);
                std::vector<std::byte> input(15000), output(15000);
                ring.alltoall(input, bytes, output, bytes);
              }),
              HasSubstr("for rank 2 (host b) to send its part of an alltoall"));
  EXPECT_THAT(error_without_rank_2([](RingCollectives& ring) { ring.barrier(); }),
              HasSubstr("for rank 2 (host b) to reach a barrier"));
  EXPECT_THAT(error_without_rank_2([](RingCollectives& ring) {
                float own = 0;
                ring.broadcast(ScatteredBuffer(DataType::kFloat32, &own, 1), 2);
              }),
              HasSubstr("for rank 2 (host b) to send the data of a broadcast"));
}

TEST(RingFailure, AbortEndsWait) {
  std::string text;
  try {
    contract::run_thread_ranks(2, {}, [&](Transport& transport, int rank) {
      const auto peers = transport.make_point_to_point();
      RingCollectives ring(*peers, 256);
      if (rank == 1) return transport.abort("rank 1 ran out of data");
      ring.barrier();
    });
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("rank 1 ran out of data"));
}

}  // namespace
}  // namespace horo::collectives
