#include "collectives/device/host_device_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "horo/base/error.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_ranks;
using ::testing::HasSubstr;

class DeviceCollectivesRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollectivesRanks, testing::Values(1, 2, 3, 4, 7));

TEST_P(DeviceCollectivesRanks, RunInTheOrderOfTheStream) {
  run_device_ranks(GetParam(), 3, [](DeviceRank& own) {
    const auto n = static_cast<std::size_t>(own.size);
    const auto r = static_cast<std::size_t>(own.rank);
    const auto stream = own.device.make_stream(device::Priority::kNormal);
    std::vector<float> x(1003);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(r * 1000 + i);
    own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
    // Rows of different lengths, of what was just reduced.
    std::vector<std::size_t> bytes_of;
    std::size_t rows = 0;
    for (std::size_t k = 0; k < n; ++k, rows += k) bytes_of.push_back((k + 1) * sizeof(float));
    std::vector<float> gathered(rows), shard(r + 2), square(n), transposed(n);
    own.collectives.allgather(x.data() + r, bytes_of, gathered.data(), *stream);
    std::vector<std::size_t> count_of;
    std::size_t total = 0;
    for (std::size_t k = 0; k < n; ++k) total += count_of.emplace_back(k + 2);
    const std::vector<float> ones(total, static_cast<float>(r + 1));
    own.collectives.reduce_scatter(ones.data(), DataType::kFloat32, count_of, shard.data(),
                                   ReduceOp::kMax, *stream);
    for (std::size_t k = 0; k < n; ++k) square[k] = static_cast<float>(r * 100 + k);
    const std::vector<std::size_t> one_each(n, sizeof(float));
    own.collectives.alltoall(square.data(), one_each, transposed.data(), one_each, *stream);
    std::vector<float> word = {static_cast<float>(own.rank)};
    own.collectives.broadcast(word.data(), sizeof(float), own.size - 1, *stream);
    stream->synchronize();

    const auto sum = [&](std::size_t i) {
      return static_cast<float>(n * (n - 1) / 2 * 1000 + n * i);
    };
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], sum(i)) << i;
    for (std::size_t k = 0, at = 0; k < n; ++k)
      for (std::size_t i = 0; i <= k; ++i, ++at) ASSERT_EQ(gathered[at], sum(k + i));
    EXPECT_EQ(shard, std::vector<float>(r + 2, static_cast<float>(n)));
    for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(transposed[k], static_cast<float>(k * 100 + r));
    EXPECT_EQ(word[0], static_cast<float>(own.size - 1));
    EXPECT_FALSE(own.collectives.failure());
  });
}

TEST(DeviceCollectives, APeerThatNeverComesEndsTheStreamWithATextAndNothingBlocks) {
  run_device_ranks(
      3, 0,
      [](DeviceRank& own) {
        if (own.rank == 1) return;
        const auto stream = own.device.make_stream(device::Priority::kNormal);
        const auto done = own.device.make_event();
        std::vector<float> x(100000);
        own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
        stream->record(*done);
        EXPECT_THROW(done->synchronize(), DeviceError);
        ASSERT_TRUE(own.collectives.failure());
        EXPECT_THAT(*own.collectives.failure(), HasSubstr("rank"));
        EXPECT_THROW(stream->synchronize(), DeviceError);
      },
      std::chrono::milliseconds(200));
}

TEST(DeviceCollectives, AbortEndsWhatIsUnderWay) {
  EXPECT_THROW(
      run_device_ranks(2, 0,
                       [](DeviceRank& own) {
                         if (own.rank == 1) {
                           own.collectives.abort("no more");
                           throw CommunicationError("gave up");
                         }
                         const auto stream = own.device.make_stream(device::Priority::kNormal);
                         std::vector<float> x(1000);
                         own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(),
                                                   ReduceOp::kSum, *stream);
                         EXPECT_THROW(stream->synchronize(), DeviceError);
                         EXPECT_THAT(own.collectives.failure().value_or(""), HasSubstr("no more"));
                       }),
      std::exception);
}

}  // namespace
}  // namespace horo::collectives
