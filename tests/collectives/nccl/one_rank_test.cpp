#include <gtest/gtest.h>

#include "horo/device/gpu.h"
#include "tests/collectives/nccl/nccl_ranks.h"

namespace horo::collectives {
namespace {

using contract::run_nccl_ranks;

TEST(NcclCollectives, OneRankLaunchesNothing) {
  run_nccl_ranks(1, [](NcclCollectives& nccl) {
    const auto gpu = device::open_gpu(0);
    const auto stream = gpu->make_stream();
    const device::Memory a = gpu->allocate(4000), b = gpu->allocate(4000);
    const device::Memory host = gpu->allocate_pinned(4000);
    auto* values = reinterpret_cast<float*>(host.data());
    for (int i = 0; i < 1000; ++i) values[i] = static_cast<float>(i);
    stream->copy(a.data(), host.data(), 4000);
    nccl.allreduce(a.data(), DataType::kFloat32, 1000, ReduceOp::kAverage, *stream);
    const std::size_t bytes[] = {4000};
    nccl.allgather(a.data(), bytes, b.data(), *stream);
    stream->fill(host.data(), 0, 4000);
    stream->copy(host.data(), b.data(), 4000);
    stream->synchronize();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
    EXPECT_FALSE(nccl.failure());
  });
}

}  // namespace
}  // namespace horo::collectives
