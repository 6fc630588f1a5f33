#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/support/failing_allocation.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A rank that has joined allocates memory for neutral values.
TEST(AllocationFailure, OnOneRankFailsAllRanks) {
  for (const char* per_node : {"0", "1", "2"}) {
    std::mutex mutex;
    std::vector<std::string> texts;
    EXPECT_THROW(
        testing::run_ranks(3,
                           [&](Context& ctx) {
                             std::vector<float> x(1000003, 1.0f);
                             ctx.barrier();
                             if (ctx.rank() == 0) failing_allocation_bytes = 4000000;
                             ctx.barrier();
                             try {
                               if (ctx.rank() != 2) ctx.allreduce(TensorView(x), {.name = "x"});
                               (void)ctx.join();
                             } catch (const CommunicationError& error) {
                               const std::scoped_lock lock(mutex);
                               texts.emplace_back(error.what());
                               throw;
                             }
                           },
                           {.environment = {std::string("HORO_RANKS_PER_NODE=") + per_node}}),
        Error);
    failing_allocation_bytes = 0;
    EXPECT_THAT(texts, SizeIs(3)) << per_node;
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("(host "), HasSubstr(" failed in '"),
                                  HasSubstr("': std::bad_alloc"))))
        << per_node;
  }
}

}  // namespace
}  // namespace horo
