#include "collectives/nccl/nccl_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/base/device/gpu.h"
#include "horo/base/error.h"
#include "tests/collectives/nccl/nccl_ranks.h"

namespace horo::collectives {
namespace {

using contract::run_nccl_ranks;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace horo::collectives
