#include <gtest/gtest.h>

#include <vector>

#include "collectives/device/chunk_pipeline.h"
#include "horo/base/error.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_ranks;

TEST(FailingPipeline, LostPeerFailsEventsOfOthers) {
  run_device_ranks(
      3, 2,
      [](DeviceRank& own) {
        std::vector<float> tensor(20011, static_cast<float>(own.rank));
        const TensorView view(tensor);
        const FusedLayout layout(std::span(&view, 1), DataType::kFloat32, 10000);
        ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes(), {});
        if (own.rank == 2) return;
        const auto done = own.device.make_event();
        pipeline.allreduce(layout, {.op = ReduceOp::kSum}, {}, *done);
        EXPECT_THROW(done->synchronize(), DeviceError);
        EXPECT_TRUE(own.collectives.failure());
        EXPECT_THROW(pipeline.allreduce(layout, {.op = ReduceOp::kSum}, {}, *done), DeviceError);
      },
      std::chrono::milliseconds(200));
}

TEST(FailingPipeline, ReportsBucketThatDoesNotFit) {
  run_device_ranks(1, 0, [](DeviceRank& own) {
    std::vector<float> tensor(1000);
    const TensorView view(tensor);
    const FusedLayout layout(std::span(&view, 1), DataType::kFloat32, 10000);
    ChunkPipeline pipeline(own.device, own.collectives, layout.buffer_bytes() - 1, {});
    const auto done = own.device.make_event();
    EXPECT_THROW(pipeline.allreduce(layout, {}, {}, *done), InvalidArgument);
  });
  device::HostDevice small({.memory_bytes = 1000});
  run_device_ranks(1, 0, [&](DeviceRank& own) {
    EXPECT_THROW(ChunkPipeline(small, own.collectives, 600, {}), DeviceError);
  });
  EXPECT_EQ(small.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace horo::collectives
