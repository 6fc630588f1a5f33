#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "horo/base/error.h"
#include "tests/collectives/device/device_ranks.h"
#include "tests/support/device_array.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_group;
using device::DeviceArray;

// The timeout of the test checks that all calls return.
TEST(NcclAbort, EndsWaitsAndAllowsNewCommunicator) {
  run_device_group(1, [](DeviceRank& own) {
    if (own.size == 1) return;
    const auto stream = own.device.make_stream();
    const DeviceArray<float> x(own.device, *stream, std::vector<float>(100000, 1));
    own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
    EXPECT_EQ(x.values(*stream)[99999], static_cast<float>(own.size));
    if (own.rank != own.size - 1) {  // the last rank is missing
      own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
      EXPECT_FALSE(stream->is_idle());
    }
    MPI_Barrier(MPI_COMM_WORLD);  // the other ranks wait
    own.collectives.abort("the last rank is dead");
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // NCCL decides whether aborted work counts as complete.
    }
    EXPECT_THAT(own.collectives.failure().value_or(""),
                testing::HasSubstr("the last rank is dead"));
    EXPECT_THROW(own.collectives.broadcast(x.data(), 4, 0, *stream), CommunicationError);
    MPI_Barrier(MPI_COMM_WORLD);
  });
  run_device_group(1, [](DeviceRank& own) {
    const auto stream = own.device.make_stream();
    const DeviceArray<float> x(own.device, *stream, std::vector<float>(1000, 2));
    own.collectives.allreduce(x.data(), DataType::kFloat32, x.size(), ReduceOp::kSum, *stream);
    EXPECT_EQ(x.values(*stream)[999], 2 * static_cast<float>(own.size));
  });
}

}  // namespace
}  // namespace horo::collectives
