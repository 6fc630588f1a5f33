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

TEST(HostDeviceCollectives, MissingPeerFailsStreamWithoutBlocking) {
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

TEST(HostDeviceCollectives, AbortEndsCollectivesInFlight) {
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
