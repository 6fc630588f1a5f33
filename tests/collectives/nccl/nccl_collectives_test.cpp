#include "collectives/nccl/nccl_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/nccl/nccl_block.h"
#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "tests/collectives/nccl/nccl_ranks.h"

namespace horo::collectives {
namespace {

using contract::run_nccl_ranks;
using ::testing::HasSubstr;

TEST(NcclCollectives, MissingGpuThrowsNcclText) {
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

TEST(NcclBlock, AllocateFailsWithoutGpu) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  std::string error_text;
  EXPECT_EQ(NcclBlock::allocate(1000, error_text), nullptr);
  EXPECT_THAT(error_text, HasSubstr("ncclMemAlloc"));
}

}  // namespace
}  // namespace horo::collectives
