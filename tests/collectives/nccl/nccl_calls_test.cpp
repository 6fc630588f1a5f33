// The calls of NCCL that this library makes, on a fake of NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl/connect_gpus.h"
#include "collectives/nccl/nccl_block.h"
#include "collectives/nccl/nccl_collectives.h"
#include "collectives/nccl/nccl_threads.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "horo/device/host/host_device.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/collectives/nccl/fake_nccl.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Runs function(nccl, control, rank) on `ranks` threads.
void run_ranks(int ranks, const NcclOptions& options,
               const std::function<void(NcclCollectives&, Collectives&, int)>& function,
               std::chrono::nanoseconds timeout = 1min) {
  InProcessJob::Options job;
  job.wait.timeout = timeout;
  contract::run_thread_ranks(ranks, job, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives control(*peers, 4096);
    // The name is destroyed before the communicator, and its memory is overwritten.
    auto name = std::make_unique<std::string>("a name of gradients that needs memory of its own");
    NcclCollectives nccl(control, rank, ranks, *name, transport.wait_policy(), options);
    std::ranges::fill(*name, '#');
    name.reset();
    function(nccl, control, rank);
  });
}

class NcclCalls : public testing::Test {
 protected:
  NcclCalls() { fake_nccl::reset(); }
  ~NcclCalls() override {
    fake_nccl::set({});
    EXPECT_TRUE(fake_nccl::await_end(5s));
    NcclThreads::of_process().join(5s);
    EXPECT_EQ(fake_nccl::blocks(), 0);
  }
};

TEST_F(NcclCalls, NameLivesAsLongAsCommunicator) {
  run_ranks(2, {}, [](NcclCollectives&, Collectives&, int) {});
  EXPECT_THAT(fake_nccl::names_at_end(),
              testing::Each(testing::Eq("a name of gradients that needs memory of its own")));
  EXPECT_EQ(fake_nccl::count_of("CommDestroy"), 2u);
  EXPECT_EQ(fake_nccl::count_of("CommAbort"), 0u);
}

// NCCL does not end an aborted communicator before the graphs that contain its collectives.
TEST_F(NcclCalls, AbortDoesNotWaitForCapturedSteps) {
  fake_nccl::set({.has_graphs = true});
  run_ranks(2, {}, [](NcclCollectives& nccl, Collectives& control, int) {
    control.barrier();
    const auto begin = Clock::now();
    nccl.abort("a test");
    EXPECT_THAT(nccl.failure().value_or(""), testing::HasSubstr("a test"));
    EXPECT_LT(Clock::now() - begin, 1s);
    EXPECT_EQ(fake_nccl::count_of("CommAbort"), 0u);
    control.barrier();
    fake_nccl::set({});  // the program destroys the graphs
    EXPECT_TRUE(fake_nccl::await_end(5s));
  });
  EXPECT_EQ(fake_nccl::count_of("CommAbort"), 2u);
}

TEST_F(NcclCalls, FinalizationHasDeadline) {
  fake_nccl::set({.can_finalize = false});
  const auto begin = Clock::now();
  run_ranks(
      2, {}, [](NcclCollectives&, Collectives&, int) {}, 700ms);
  EXPECT_GE(Clock::now() - begin, 700ms);
  EXPECT_TRUE(fake_nccl::await_end(5s));
  EXPECT_EQ(fake_nccl::count_of("CommAbort"), 2u);
  EXPECT_EQ(fake_nccl::count_of("CommDestroy"), 0u);
}

TEST_F(NcclCalls, FailedCallClosesGroup) {
  run_ranks(2, {}, [](NcclCollectives& nccl, Collectives& control, int rank) {
    device::HostDevice device;
    const auto stream = device.make_stream(device::Priority::kNormal);
    std::vector<float> x(30);
    const std::vector<std::size_t> uneven = {4, 8};
    control.barrier();
    if (rank == 0) fake_nccl::set({.failing = "Broadcast"});
    control.barrier();
    EXPECT_THROW(nccl.allgather(x.data(), uneven, x.data(), *stream), CommunicationError);
    EXPECT_EQ(fake_nccl::group_depth(), 0);
    control.barrier();
    if (rank == 0) fake_nccl::set({});
    control.barrier();
  });
}

TEST_F(NcclCalls, PartsTakeOneGroup) {
  run_ranks(2, {}, [](NcclCollectives& nccl, Collectives&, int) {
    device::HostDevice device;
    const auto stream = device.make_stream(device::Priority::kNormal);
    std::vector<float> x(30);
    const std::vector<DeviceCollectives::Part> parts = {
        {x.data(), 10}, {x.data() + 10, 0}, {x.data() + 20, 7}};
    nccl.allreduce_parts(parts, DataType::kFloat32, ReduceOp::kSum, *stream);
    nccl.allreduce_parts({}, DataType::kFloat32, ReduceOp::kSum, *stream);
    EXPECT_THROW(nccl.allreduce_parts(parts, DataType::kInt16, ReduceOp::kSum, *stream),
                 InvalidArgument);
  });
  std::vector<std::size_t> counts;
  for (const fake_nccl::Call& call : fake_nccl::calls())
    if (call.function == "AllReduce" && call.rank == 0) {
      counts.push_back(call.count);
      EXPECT_TRUE(call.is_grouped);
    }
  EXPECT_EQ(counts, (std::vector<std::size_t>{10, 7}));
}

TEST_F(NcclCalls, OptionsReachNccl) {
  run_ranks(2, {}, [](NcclCollectives&, Collectives&, int) {});
  EXPECT_EQ(fake_nccl::latest_config().maxCTAs, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(fake_nccl::latest_config().blocking, 0);
  run_ranks(2, {.max_ctas = 8, .is_blocking = true}, [](NcclCollectives&, Collectives&, int) {});
  EXPECT_EQ(fake_nccl::latest_config().maxCTAs, 8);
  EXPECT_EQ(fake_nccl::latest_config().blocking, 1);
}

/// What a rank sees of a buffer.
struct Seen {
  int windows = 0, registrations = 0;
};

Seen registered_buffer() {
  Seen seen;
  run_ranks(2, {}, [&](NcclCollectives& nccl, Collectives& control, int rank) {
    device::HostDevice device;
    const device::Memory buffer = nccl.allocate_buffer(device, 10000, control);
    EXPECT_EQ(buffer.size(), 10000u);
    control.barrier();
    if (rank == 0) seen = {fake_nccl::windows(), fake_nccl::registrations()};
    control.barrier();
  });
  EXPECT_EQ(fake_nccl::windows(), 0);
  EXPECT_EQ(fake_nccl::registrations(), 0);
  return seen;
}

TEST_F(NcclCalls, BuffersAreSymmetricWindows) {
  const Seen seen = registered_buffer();
  EXPECT_EQ(seen.windows, 2);
  EXPECT_EQ(seen.registrations, 0);
}

TEST_F(NcclCalls, BuffersFallBackOnAllRanks) {
  fake_nccl::set({.rank_without_windows = 1});
  Seen seen = registered_buffer();
  EXPECT_EQ(seen.windows, 0);
  EXPECT_EQ(seen.registrations, 2);
  fake_nccl::set({.has_windows = false, .can_register = false});
  seen = registered_buffer();
  EXPECT_EQ(seen.windows, 0);
  EXPECT_EQ(seen.registrations, 0);
}

TEST_F(NcclCalls, RegistersBlocksOfProgram) {
  std::string obstacle;
  for (const bool is_freed_first : {true, false}) {
    run_ranks(2, {}, [&](NcclCollectives& nccl, Collectives& control, int rank) {
      device::Memory arena = NcclBlock::allocate(8192, obstacle)->own();
      EXPECT_TRUE(nccl.register_memory(arena.data(), 8192, control));
      EXPECT_TRUE(nccl.register_memory(arena.data() + 4096, 100, control));  // the same block
      control.barrier();
      EXPECT_EQ(fake_nccl::windows(), 2);
      control.barrier();
      // Memory of another kind on one rank: no rank registers it.
      std::vector<std::byte> plain(8192);
      device::Memory other = NcclBlock::allocate(8192, obstacle)->own();
      EXPECT_FALSE(nccl.register_memory(rank == 0 ? plain.data() : other.data(), 8192, control));
      EXPECT_FALSE(nccl.register_memory(arena.data() + 1, 8192, control));
      control.barrier();
      EXPECT_EQ(fake_nccl::windows(), 2);
      control.barrier();
      if (!is_freed_first) nccl.abort("the arena is freed after the communicator");
      arena = {};
      control.barrier();
    });
    EXPECT_EQ(fake_nccl::count_of("CommWindowRegister"), is_freed_first ? 2u : 4u);
    EXPECT_TRUE(fake_nccl::await_end(5s));
    EXPECT_EQ(fake_nccl::windows(), 0);
  }
}

// Symmetric windows need corresponding addresses.
TEST_F(NcclCalls, RangesAtDifferentOffsetsAreRegisteredOnEachRankAlone) {
  std::string obstacle;
  run_ranks(2, {}, [&](NcclCollectives& nccl, Collectives& control, int rank) {
    const auto offset = static_cast<std::ptrdiff_t>(rank) * 256;
    const device::Memory moved = NcclBlock::allocate(8192, obstacle)->own();
    EXPECT_TRUE(nccl.register_memory(moved.data() + offset, 100, control));
    const device::Memory longer = NcclBlock::allocate(rank == 0 ? 4096 : 8192, obstacle)->own();
    EXPECT_TRUE(nccl.register_memory(longer.data(), 100, control));
    control.barrier();
    EXPECT_EQ(fake_nccl::windows(), 0);
    EXPECT_EQ(fake_nccl::registrations(), 4);
    control.barrier();
    // Rank 0 has registered the block of its range, rank 1 has not.
    const device::Memory fresh = NcclBlock::allocate(8192, obstacle)->own();
    const std::byte* const range = rank == 0 ? moved.data() : fresh.data();
    EXPECT_TRUE(nccl.register_memory(range, 100, control));
    control.barrier();
    EXPECT_EQ(fake_nccl::windows(), 0);
    EXPECT_EQ(fake_nccl::registrations(), 5);
    control.barrier();
  });
  EXPECT_EQ(fake_nccl::registrations(), 0);
}

TEST_F(NcclCalls, StandInNeedsNoBlockOfNccl) {
  device::HostDevice device;
  const device::Memory memory = allocate_exchange_memory(device, 1000);
  EXPECT_TRUE(device.owns(memory.data()));
  EXPECT_EQ(fake_nccl::blocks(), 0);
}

// A captured step is never destroyed, so NCCL does not end the communicator.
TEST(NcclExitDeathTest, ExitDoesNotWaitForeverForNccl) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begin = Clock::now();
  EXPECT_EXIT(
      {
        fake_nccl::reset({.has_graphs = true});
        run_ranks(1, {}, [](NcclCollectives& nccl, Collectives&, int) { nccl.abort("a test"); });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "1 thread is still inside NCCL at exit");
  EXPECT_GE(Clock::now() - begin, NcclThreads::kExitLimit);
}

TEST(NcclThreads, WaitsAtMostForLimit) {
  NcclThreads threads;
  std::atomic<bool> may_end = false;
  auto owned = std::make_shared<int>(1);
  const auto ended = threads.start([&may_end, owned] {
    while (!may_end) std::this_thread::sleep_for(1ms);
  });
  EXPECT_EQ(threads.join(10ms), 1u);
  EXPECT_EQ(owned.use_count(), 2);
  may_end = true;
  EXPECT_EQ(threads.join(10s), 0u);
  EXPECT_EQ(ended.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(NcclThreads, DestructorJoins) {
  std::atomic<bool> has_ended = false;
  {
    NcclThreads threads;
    threads.start([&] {
      std::this_thread::sleep_for(50ms);
      has_ended = true;
    });
  }
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace horo::collectives
