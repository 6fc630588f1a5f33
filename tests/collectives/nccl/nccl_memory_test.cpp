// Memory that is registered with NCCL. Whether NCCL can register it depends on the machine, so the
// tests check the results of collectives only.
#include <gtest/gtest.h>

#include "collectives/nccl/connect_gpus.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives {
namespace {

using contract::DeviceRank;
using contract::run_device_group;

constexpr std::size_t kCount = 300000;

// Sums the ranks' numbers in the memory `x` and checks every value.
void expect_sum(DeviceRank& own, const device::Memory& x, std::size_t first, std::size_t count) {
  const auto stream = own.device.make_stream();
  const device::Memory host = own.device.allocate_pinned(count * sizeof(float));
  auto* const values = reinterpret_cast<float*>(host.data());
  std::byte* const range = x.data() + first * sizeof(float);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i + static_cast<std::size_t>(own.rank)) % 8);
  stream->copy(range, host.data(), count * sizeof(float));
  own.collectives.allreduce(range, DataType::kFloat32, count, ReduceOp::kSum, *stream);
  stream->copy(host.data(), range, count * sizeof(float));
  stream->synchronize();
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < own.size; ++r)
      sum += static_cast<float>((i + static_cast<std::size_t>(r)) % 8);
    ASSERT_EQ(values[i], sum) << "index " << i;
  }
}

TEST(NcclMemory, RegisteredBlocksGiveExactSums) {
  run_device_group(1, [](DeviceRank& own) {
    const std::size_t bytes = kCount * sizeof(float);
    const device::Memory buffer = own.collectives.allocate_buffer(own.device, bytes, *own.control);
    device::Memory arena = allocate_exchange_memory(own.device, bytes);
    const bool is_registered = own.collectives.register_memory(arena.data(), bytes, *own.control);
    EXPECT_EQ(own.collectives.register_memory(arena.data() + 4096, 4096, *own.control),
              is_registered);
    for (int k = 0; k < 3; ++k) {
      expect_sum(own, buffer, 0, kCount);
      expect_sum(own, arena, 0, kCount);
      expect_sum(own, arena, 64, 1000);
    }
    arena = {};  // freed while the communicator exists
    expect_sum(own, buffer, 64, 1000);
    EXPECT_FALSE(own.collectives.failure());
  });
}

TEST(NcclMemory, OrdinaryMemoryIsNotRegistered) {
  run_device_group(1, [](DeviceRank& own) {
    const device::Memory plain = own.device.allocate(kCount * sizeof(float));
    EXPECT_FALSE(own.collectives.register_memory(plain.data(), 1000, *own.control));
    expect_sum(own, plain, 0, kCount);
  });
}

}  // namespace
}  // namespace horo::collectives
