#include "horo/device/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/host/host_device.h"

namespace horo::device {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockSize, WastesLittleAndHasFewValues) {
  std::size_t values = 0, latest = 0;
  for (std::size_t bytes = 1; bytes < 3 * kMiB; bytes += 37) {
    const std::size_t size = block_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % 512, 0u);
    ASSERT_LE(size, std::max<std::size_t>(bytes + 511, bytes + bytes / 8)) << bytes;
    ASSERT_EQ(block_size(size), size);
    ASSERT_GE(size, latest);
    values += size != latest ? 1 : 0;
    latest = size;
  }
  EXPECT_LE(values, 100u);
  EXPECT_EQ(block_size(0), 512u);
  EXPECT_EQ(blocks_at_once(512), 4096u);
  EXPECT_EQ(blocks_at_once(3 * kMiB), 1u);
}

class Gate {
 public:
  explicit Gate(Stream& stream) {
    submit(stream, [future = opened_.get_future().share()] { future.wait(); });
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

class EventCountingDevice : public HostDevice {
 public:
  using HostDevice::HostDevice;
  std::unique_ptr<Event> make_event() override {
    ++events;
    return HostDevice::make_event();
  }
  std::atomic<int> events = 0;
};

struct CachingAllocatorTest : ::testing::Test {
  EventCountingDevice device{{.max_delay = 30us, .seed = 4}};
  std::unique_ptr<Stream> first = device.make_stream(Priority::kNormal);
  std::unique_ptr<Stream> second = device.make_stream(Priority::kNormal);
  CachingAllocator allocator{device};
};

TEST_F(CachingAllocatorTest, LoopUsesDriverInFirstRoundOnly) {
  std::uint64_t after_first = 0;
  for (int round = 0; round < 20; ++round) {
    std::deque<Memory> kept;
    for (const std::size_t bytes : {100, 5000, 3000000, 100, 7, 900000, 2900000, 0}) {
      kept.push_back(allocator.allocate(bytes, *first));
      EXPECT_EQ(kept.back().size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().data()) % 256, 0u);
      first->fill(kept.back().data(), round, bytes);
      if (kept.size() > 3) kept.pop_front();
    }
    if (round == 0) after_first = allocator.counters().driver_allocations;
  }
  EXPECT_EQ(allocator.counters().driver_allocations, after_first);
  EXPECT_EQ(allocator.counters().requests, 160u);
  EXPECT_EQ(device.events, 0);
  first->synchronize();
}

TEST_F(CachingAllocatorTest, SameStreamReusesMemoryAtOnce) {
  Gate gate(*first);
  Memory memory = allocator.allocate(1000, *first);
  const std::byte* place = memory.data();
  memory = {};
  memory = allocator.allocate(900, *first);  // of the same size
  EXPECT_EQ(memory.data(), place);
  const auto borrowed = device.borrow_stream(first->native());
  memory = {};
  EXPECT_EQ(allocator.allocate(1000, *borrowed).data(), place);
  gate.open();
}

TEST_F(CachingAllocatorTest, OtherStreamReusesMemoryAfterWork) {
  Gate gate(*first);
  Memory memory = allocator.allocate(3 * kMiB, *first);
  const std::byte* place = memory.data();
  memory = {};
  EXPECT_EQ(device.events, 0);
  Memory other = allocator.allocate(3 * kMiB, *second);
  EXPECT_NE(other.data(), place);
  EXPECT_EQ(device.events, 1);
  EXPECT_EQ(allocator.counters().driver_allocations, 2u);
  gate.open();
  first->synchronize();
  EXPECT_EQ(allocator.allocate(3 * kMiB, *second).data(), place);
  EXPECT_EQ(device.events, 1);
  EXPECT_EQ(allocator.counters().driver_allocations, 2u);
}

TEST_F(CachingAllocatorTest, AnIdleStreamNeedsNoEvent) {
  Memory memory = allocator.allocate(3 * kMiB, *first);
  const std::byte* place = memory.data();
  memory = {};
  EXPECT_EQ(allocator.allocate(3 * kMiB, *second).data(), place);
  EXPECT_EQ(allocator.trim(), 3 * kMiB);
  EXPECT_EQ(device.events, 0);
}

// Work that the first stream gets after the free delays the reuse too, but only until the event.
TEST_F(CachingAllocatorTest, OtherStreamWaitsForTheWorkOfItsFirstRequest) {
  Memory memory = allocator.allocate(3 * kMiB, *first);
  const std::byte* place = memory.data();
  memory = {};
  Gate before(*first);
  const Memory other = allocator.allocate(3 * kMiB, *second);
  EXPECT_NE(other.data(), place);
  const auto passed = device.HostDevice::make_event();
  first->record(*passed);
  Gate after(*first);
  before.open();
  passed->synchronize();
  EXPECT_EQ(allocator.allocate(3 * kMiB, *second).data(), place);
  after.open();
  first->synchronize();
}

TEST_F(CachingAllocatorTest, MemoryMayOutliveForgottenStream) {
  const Memory of_second = allocator.allocate(3 * kMiB, *second);
  Memory cached = allocator.allocate(3 * kMiB, *first),
         in_use = allocator.allocate(4 * kMiB, *first);
  const std::byte* place = cached.data();
  const std::byte* place_in_use = in_use.data();
  cached = {};
  allocator.note_use(of_second, *first);
  Gate gate(*first);
  allocator.forget(*first);
  EXPECT_EQ(device.events, 1);
  const Memory other = allocator.allocate(3 * kMiB, *second);
  EXPECT_NE(other.data(), place);
  gate.open();
  first = nullptr;
  in_use = {};
  EXPECT_EQ(allocator.allocate(4 * kMiB, *second).data(), place_in_use);
  EXPECT_EQ(allocator.allocate(3 * kMiB, *second).data(), place);
  allocator.forget(*second);
  second = nullptr;
  EXPECT_EQ(allocator.trim(), 7 * kMiB);
}

TEST_F(CachingAllocatorTest, ForgetsOnlyStreamsThatAreNotCaptured) {
  allocator.forget(*first);  // was never used
  allocator.allocate(3 * kMiB, *first);
  const auto graph = device.capture(*first, [&] {
    EXPECT_THROW(allocator.forget(*first), InvalidArgument);
    EXPECT_EQ(allocator.trim(), 0u);  // the earlier work of the stream may be incomplete
    EXPECT_EQ(allocator.allocate(3 * kMiB, *second).size(), 3 * kMiB);
  });
  EXPECT_EQ(allocator.counters().driver_allocations, 2u);
  EXPECT_EQ(allocator.trim(), 6 * kMiB);
}

TEST_F(CachingAllocatorTest, WaitsForEveryStreamThatUsesMemory) {
  Memory memory = allocator.allocate(3 * kMiB, *first);
  const std::byte* place = memory.data();
  Gate gate(*second);
  allocator.note_use(memory, *second);
  allocator.note_use(memory, *second);
  allocator.note_use(memory, *first);
  memory = {};
  EXPECT_NE(allocator.allocate(3 * kMiB, *first).data(), place);
  gate.open();
  second->synchronize();
  // Both blocks are free. The allocator returns the one that was freed last first.
  Memory a = allocator.allocate(3 * kMiB, *first), b = allocator.allocate(3 * kMiB, *first);
  EXPECT_EQ(b.data(), place);
  EXPECT_THROW(allocator.note_use(Memory{}, *first), InvalidArgument);
}

TEST_F(CachingAllocatorTest, CountsCurrentAndPeakUse) {
  Memory a = allocator.allocate(3 * kMiB, *first), b = allocator.allocate(4 * kMiB, *first);
  EXPECT_EQ(allocator.counters().in_use_bytes, 7 * kMiB);
  a = {};
  EXPECT_EQ(allocator.counters().in_use_bytes, 4 * kMiB);
  EXPECT_EQ(allocator.counters().cached_bytes, 3 * kMiB);
  EXPECT_EQ(allocator.counters().peak_bytes, 7 * kMiB);
  Memory small = allocator.allocate(1, *first);
  EXPECT_EQ(allocator.counters().in_use_bytes, 4 * kMiB + 512);
  EXPECT_EQ(allocator.counters().cached_bytes, 5 * kMiB - 512);
  EXPECT_EQ(allocator.counters().peak_bytes, 7 * kMiB);
  EXPECT_EQ(device.allocated_bytes(), 9 * kMiB);
}

TEST_F(CachingAllocatorTest, TrimReleasesUnusedMemory) {
  Memory large = allocator.allocate(3 * kMiB, *first);
  Memory small = allocator.allocate(512, *first);
  Memory other_small = allocator.allocate(512, *second);
  EXPECT_EQ(allocator.trim(), 0u);
  std::atomic<int> seen = 0;
  large.data()[7] = std::byte{9};
  submit(*first, [&seen, data = large.data()] {
    std::this_thread::sleep_for(2ms);
    seen = static_cast<int>(data[7]);
  });
  large = {};
  small = {};
  EXPECT_EQ(allocator.trim(), 3 * kMiB);
  EXPECT_EQ(seen, 9);  // it has waited
  EXPECT_EQ(device.allocated_bytes(), 2 * kMiB);
  other_small = {};
  EXPECT_EQ(allocator.trim(), 2 * kMiB);
  EXPECT_EQ(device.allocated_bytes(), 0u);
  EXPECT_EQ(allocator.counters().cached_bytes, 0u);
  allocator.allocate(512, *first);
}

TEST(CachingAllocator, ReleasesCacheAndRetriesWhenOutOfMemory) {
  HostDevice device({.max_delay = 30us, .seed = 1, .memory_bytes = 8 * kMiB});
  const auto stream = device.make_stream(Priority::kNormal);
  CachingAllocator allocator(device);
  Memory kept = allocator.allocate(2 * kMiB, *stream);
  Memory memory = allocator.allocate(4 * kMiB, *stream);
  stream->fill(memory.data(), 1, memory.size());
  memory = {};
  memory = allocator.allocate(6 * kMiB, *stream);  // only if the 4 MiB are given back
  stream->fill(memory.data(), 1, memory.size());
  memory = {};
  const auto ask = [&] {
    try {
      allocator.allocate(7 * kMiB, *stream);
    } catch (const DeviceError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(ask(), AllOf(HasSubstr("no memory for 7340032 bytes: 2097152 bytes are in use here, "
                                     "6291456 were cached, of which 6291456 have been returned"),
                           HasSubstr("6291456 of 8388608 bytes are free")));
  memory = allocator.allocate(6 * kMiB, *stream);  // still works
  EXPECT_EQ(allocator.counters().in_use_bytes, 8 * kMiB);
  stream->synchronize();
}

TEST(CachingAllocator, MemoryMayOutliveAllocator) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  Memory memory;
  {
    CachingAllocator allocator(device);
    memory = allocator.allocate(64, *stream);
    allocator.allocate(3 * kMiB, *stream);
  }
  EXPECT_EQ(device.allocated_bytes(), 2 * kMiB);
  memory.data()[63] = std::byte{1};
  memory = {};
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(CachingAllocator, FailedStreamReleasesItsMemory) {
  HostDevice device;
  const auto failing = device.make_stream(Priority::kNormal);
  const auto healthy = device.make_stream(Priority::kNormal);
  CachingAllocator allocator(device);
  Memory before = allocator.allocate(3 * kMiB, *failing);
  Memory after = allocator.allocate(3 * kMiB, *failing);
  submit(*failing, [] { throw DeviceError("the bus fell off"); });
  before = {};
  EXPECT_THROW(failing->synchronize(), DeviceError);
  after = {};
  Memory a = allocator.allocate(3 * kMiB, *healthy), b = allocator.allocate(3 * kMiB, *healthy);
  EXPECT_EQ(allocator.counters().driver_allocations, 2u);
}

TEST_F(CachingAllocatorTest, GraphDoesNotShareItsMemory) {
  Memory before = allocator.allocate(3 * kMiB, *first);
  const std::byte* place_before = before.data();
  before = {};
  const auto cached = allocator.counters();
  const std::byte* place = nullptr;
  auto graph = device.capture(*first, [&] {
    for (int round = 0; round < 3; ++round) {
      const Memory memory = allocator.allocate(3 * kMiB, *first);
      EXPECT_NE(memory.data(), place_before);
      if (place == nullptr) place = memory.data();
      EXPECT_EQ(memory.data(), place);  // reused at once
      first->fill(memory.data(), round, memory.size());
    }
    // Streams do not share memory, and memory that several streams use is not reused at once.
    const auto event = device.make_event();
    first->record(*event);
    second->wait(*event);
    Memory shared = allocator.allocate(3 * kMiB, *second);
    EXPECT_NE(shared.data(), place);
    allocator.note_use(shared, *first);
    const std::byte* place_of_shared = shared.data();
    shared = {};
    EXPECT_NE(allocator.allocate(3 * kMiB, *second).data(), place_of_shared);
    second->record(*event);
    first->wait(*event);
  });
  EXPECT_EQ(allocator.counters().graph_bytes, 9 * kMiB);
  EXPECT_EQ(allocator.counters().cached_bytes, cached.cached_bytes);
  const Memory after = allocator.allocate(3 * kMiB, *first);
  EXPECT_EQ(after.data(), place_before);
  for (int launch = 0; launch < 3; ++launch) graph->launch(*second);
  EXPECT_EQ(device.allocated_bytes(), 12 * kMiB);
  graph = nullptr;
  EXPECT_EQ(device.allocated_bytes(), 3 * kMiB);
  EXPECT_EQ(allocator.counters().graph_bytes, 0u);
}

TEST_F(CachingAllocatorTest, MemoryMayOutliveGraph) {
  Memory before = allocator.allocate(3 * kMiB, *first), result;
  const Memory kept = allocator.allocate(3 * kMiB, *second);
  const std::byte* place = before.data();
  auto graph = device.capture(*first, [&] {
    EXPECT_THROW(allocator.note_use(kept, *first), InvalidArgument);
    result = allocator.allocate(100, *first);
    first->copy(result.data(), before.data(), 100);
    before = {};
    EXPECT_NE(allocator.allocate(3 * kMiB, *first).data(), place);
  });
  allocator.note_use(result, *second);
  EXPECT_NE(allocator.allocate(3 * kMiB, *first).data(), place);  // the graph reads it
  first->fill(const_cast<std::byte*>(place), 7, 100);
  graph->launch(*first);
  first->synchronize();
  EXPECT_EQ(result.data()[99], std::byte{7});
  graph = nullptr;
  EXPECT_EQ(allocator.counters().graph_bytes, 5 * kMiB);
  result = {};
  EXPECT_EQ(allocator.counters().graph_bytes, 0u);
  EXPECT_EQ(allocator.allocate(3 * kMiB, *first).data(), place);
}

TEST_F(CachingAllocatorTest, ReportsAllocationFailureInCapture) {
  HostDevice small({.memory_bytes = 3 * kMiB});
  const auto stream = small.make_stream(Priority::kNormal);
  CachingAllocator of_small(small);
  of_small.allocate(3 * kMiB, *stream);  // is cached
  const auto capture = [&] {
    return small.capture(*stream, [&] { of_small.allocate(2 * kMiB, *stream); });
  };
  try {
    capture();
    FAIL() << "it has waited for the device";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no memory for 2097152 bytes of a graph"),
                                    HasSubstr("Call trim() before")));
  }
  of_small.trim();
  EXPECT_NE(capture(), nullptr);
}

// Threads with separate, delayed streams write to memory, free it and read the values. If two of
// them had the same block, a value would be wrong, or the thread sanitizer would report it.
TEST(CachingAllocator, NeverSharesMemoryInUse) {
  HostDevice device({.max_delay = 100us, .seed = 9});
  CachingAllocator allocator(device);
  std::atomic<int> wrong = 0;
  const auto work = [&](unsigned thread) {
    const auto own = device.make_stream(Priority::kNormal);
    const auto helper = device.make_stream(Priority::kNormal);
    const auto written = device.make_event();
    std::mt19937 random(thread);
    for (int i = 0; i < 60; ++i) {
      const std::size_t bytes = 1 + random() % 3000;
      const int value = static_cast<int>(random() % 256);
      const Memory memory = allocator.allocate(bytes, *own);
      own->fill(memory.data(), value, bytes);
      own->record(*written);
      Stream& reader = i % 3 == 0 ? *helper : *own;
      if (&reader == helper.get()) {
        allocator.note_use(memory, *helper);
        helper->wait(*written);
      }
      submit(reader, [&wrong, data = memory.data(), bytes, value] {
        for (std::size_t b = 0; b < bytes; ++b)
          if (data[b] != static_cast<std::byte>(value)) ++wrong;
      });
    }
    for (Stream* stream : {own.get(), helper.get()}) {
      allocator.forget(*stream);
      stream->synchronize();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 3; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator.counters().in_use_bytes, 0u);
  EXPECT_LE(allocator.counters().driver_allocations, 20u);
}

}  // namespace
}  // namespace horo::device
