#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
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

class TreeFailure : public testing::TestWithParam<std::tuple<MessageAllreduce, int>> {
 protected:
  // Returns the error of each of `ranks` in an allreduce in which `missing` does not take part.
  static std::vector<std::string> errors_without(int missing, int ranks,
                                                 MessageAllreduce allreduce) {
    InProcessJob::Options options;
    options.wait.timeout = std::chrono::milliseconds(150);
    InProcessJob job(ranks, options);
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != missing)
        threads.emplace_back([&, rank] {
          const auto transport = job.transport(rank);
          const auto peers = transport->make_point_to_point();
          RingCollectives collectives(*peers, 256, {}, {allreduce});
          std::vector<float> own(100, 1.0f);
          try {
            collectives.allreduce({DataType::kFloat32, own.data(), own.size()}, ReduceOp::kSum);
          } catch (const CommunicationError& error) {
            errors[static_cast<std::size_t>(rank)] = error.what();
          }
        });
    threads.clear();
    return errors;
  }
};

TEST_P(TreeFailure, DependentRanksNameARank) {
  const auto [allreduce, ranks] = GetParam();
  for (int missing = 0; missing < ranks; ++missing) {
    const auto errors = errors_without(missing, ranks, allreduce);
    bool is_named = false;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == missing) continue;
      const std::string& text = errors[static_cast<std::size_t>(rank)];
      EXPECT_THAT(text, AllOf(HasSubstr("for rank "), HasSubstr("of an allreduce")))
          << "rank " << rank << " without rank " << missing;
      is_named |= text.find("for rank " + std::to_string(missing) + " to send its part") !=
                  std::string::npos;
    }
    EXPECT_TRUE(is_named) << "rank " << missing << " of " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, TreeFailure,
                         testing::Combine(testing::Values(MessageAllreduce::kExchange,
                                                          MessageAllreduce::kDoubling,
                                                          MessageAllreduce::kHalving),
                                          testing::Values(2, 4, 5)));

TEST(TreeAbort, EndsWait) {
  for (const auto allreduce :
       {MessageAllreduce::kExchange, MessageAllreduce::kDoubling, MessageAllreduce::kHalving}) {
    std::string text;
    try {
      contract::run_thread_ranks(3, {}, [&](Transport& transport, int rank) {
        const auto peers = transport.make_point_to_point();
        RingCollectives collectives(*peers, 256, {}, {allreduce});
        if (rank == 1) return transport.abort("rank 1 ran out of data");
        float own = 1;
        collectives.allreduce({DataType::kFloat32, &own, 1}, ReduceOp::kSum);
      });
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr("rank 1 ran out of data")) << name_of(allreduce);
  }
}

}  // namespace
}  // namespace horo::collectives
