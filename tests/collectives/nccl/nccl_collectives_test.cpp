#include "collectives/nccl/nccl_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/device/gpu.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using ::testing::HasSubstr;

void run_nccl_ranks(int ranks, const std::function<void(NcclCollectives&)>& function) {
  contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives control(*peers, 4096);
    NcclCollectives nccl(control, rank, ranks, "test", transport.wait_policy());
    function(nccl);
  });
}

TEST(NcclCollectives, AMachineWithoutAGpuIsRefusedWithNcclsText) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  for (const int ranks : {1, 2}) {
    std::string text;
    try {
      run_nccl_ranks(ranks, [](NcclCollectives&) { ADD_FAILURE(); });
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr("NCCL")) << ranks;
  }
}

TEST(NcclCollectives, AGroupOfOneRankStartsNothing) {
  if (device::count_gpus() == 0) GTEST_SKIP() << "SKIPPED: needs a GPU";
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
