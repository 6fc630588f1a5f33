#include "collectives/nccl/nccl_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/nccl/nccl_buffers.h"
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

TEST(NcclBuffers, AllocateFailsWithoutGpu) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  std::string error_text;
  EXPECT_EQ(NcclBuffers::allocate(1000, error_text), nullptr);
  EXPECT_THAT(error_text, HasSubstr("ncclMemAlloc"));
}

TEST(NcclBuffers, UnregisteredBufferBelongsToOwner) {
  const auto buffers = std::make_shared<NcclBuffers>(nullptr);  // the communicator has ended
  const auto memory = std::make_shared<int>(5);
  std::string error_text;
  EXPECT_FALSE(buffers->add(memory, sizeof(int), error_text));
  EXPECT_THAT(error_text, HasSubstr("aborted"));
  {
    const device::Memory owned = buffers->own(memory, sizeof(int));
    EXPECT_EQ(owned.data(), reinterpret_cast<std::byte*>(memory.get()));
    EXPECT_EQ(memory.use_count(), 2);
  }
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_TRUE(buffers->release().empty());
}

}  // namespace
}  // namespace horo::collectives
