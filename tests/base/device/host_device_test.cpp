#include "horo/base/device/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "horo/base/device/gpu.h"
#include "horo/base/error.h"

namespace horo::device {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Holds a stream until it is opened.
class Gate {
 public:
  void hold(Stream& stream) {
    submit(stream, [future = opened_.get_future().share()] { future.wait(); });
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

template <typename Function>
std::string text_of_error(Function&& function) {
  try {
    function();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostDevice, AStreamWorksInOrderAndItsCallerGoesOn) {
  HostDevice device({.max_delay = 50us, .seed = 1});
  const auto stream = device.make_stream(Priority::kNormal);
  std::vector<int> done;
  Gate gate;
  gate.hold(*stream);
  for (int i = 0; i < 20; ++i) submit(*stream, [&done, i] { done.push_back(i); });
  EXPECT_FALSE(stream->is_idle());
  gate.open();
  stream->synchronize();
  EXPECT_TRUE(stream->is_idle());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(HostDevice, StreamsDoNotWaitForEachOther) {
  HostDevice device;
  const auto held = device.make_stream(Priority::kNormal);
  const auto other = device.make_stream(Priority::kHigh);
  Gate gate;
  gate.hold(*held);
  std::atomic<bool> has_run = false;
  submit(*other, [&] { has_run = true; });
  other->synchronize();
  EXPECT_TRUE(has_run);
  EXPECT_FALSE(held->is_idle());
  gate.open();
}

TEST(HostDevice, CopiesAndFills) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  const Memory a = device.allocate(1001), b = device.allocate(1001);
  const Memory pinned = device.allocate_pinned(1001);
  for (std::size_t i = 0; i < 1001; ++i) pinned.data()[i] = static_cast<std::byte>(i % 251);
  stream->copy(a.data(), pinned.data(), 1001);
  stream->copy(b.data(), a.data(), 1001);
  stream->fill(a.data(), 7, 1000);
  stream->copy(nullptr, nullptr, 0);
  stream->synchronize();
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(b.data()[i], static_cast<std::byte>(i % 251));
    ASSERT_EQ(a.data()[i], std::byte{7});
  }
  EXPECT_EQ(a.data()[1000], static_cast<std::byte>(1000 % 251));
}

TEST(HostDevice, WhatWaitsForAnEventBeginsAfterTheWorkBeforeIt) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    HostDevice device({.max_delay = 200us, .seed = seed});
    const auto first = device.make_stream(Priority::kNormal);
    const auto second = device.make_stream(Priority::kNormal);
    const auto event = device.make_event();
    int value = 0;
    for (int round = 0; round < 3; ++round) {
      submit(*first, [&value, round] { value = 10 * round + 1; });
      first->record(*event);
      second->wait(*event);
      submit(*second, [&value, round] { EXPECT_EQ(value, 10 * round + 1); });
      second->record(*event);
      first->wait(*event);
    }
    event->synchronize();
    EXPECT_TRUE(event->is_done());
  }
}

TEST(HostDevice, AnEventThatWasNeverRecordedIsDone) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  const auto event = device.make_event();
  EXPECT_TRUE(event->is_done());
  event->synchronize();
  stream->wait(*event);
  stream->synchronize();
}

TEST(HostDevice, AWaitIsForTheLatestRecordAtItsTimeAndOutlivesTheEvent) {
  HostDevice device;
  const auto first = device.make_stream(Priority::kNormal);
  const auto second = device.make_stream(Priority::kNormal);
  const auto waiting = device.make_stream(Priority::kNormal);
  auto event = device.make_event();
  first->record(*event);
  waiting->wait(*event);
  Gate gate;
  gate.hold(*second);
  second->record(*event);
  waiting->synchronize();  // does not wait for the second record
  EXPECT_FALSE(event->is_done());
  waiting->wait(*event);
  event.reset();
  EXPECT_FALSE(waiting->is_idle());
  gate.open();
  waiting->synchronize();
}

TEST(HostDevice, WorkThatFailsEndsItsStreamAndWhoWaitsForIt) {
  HostDevice device;
  const auto failing = device.make_stream(Priority::kNormal);
  const auto waiting = device.make_stream(Priority::kNormal);
  const auto healthy = device.make_stream(Priority::kNormal);
  const auto before = device.make_event(), after = device.make_event(), late = device.make_event();
  Gate gate;
  gate.hold(*failing);
  failing->record(*before);
  submit(*failing, [] { throw DeviceError("the bus fell off"); });
  std::atomic<bool> has_run = false;
  submit(*failing, [&] { has_run = true; });
  failing->record(*after);
  waiting->wait(*after);
  waiting->record(*late);
  gate.open();
  const auto says_so = HasSubstr("the bus fell off");
  EXPECT_THAT(text_of_error([&] { late->synchronize(); }), says_so);
  EXPECT_THAT(text_of_error([&] { after->is_done(); }), says_so);
  EXPECT_TRUE(before->is_done());
  EXPECT_THAT(text_of_error([&] { failing->synchronize(); }), says_so);
  EXPECT_THAT(text_of_error([&] { waiting->fill(nullptr, 0, 0); }), says_so);
  EXPECT_THAT(text_of_error([&] { failing->record(*before); }), says_so);
  EXPECT_FALSE(has_run);
  healthy->record(*before);
  before->synchronize();
}

TEST(HostDevice, ABorrowedStreamIsTheUsersOwn) {
  HostDevice device({.max_delay = 100us, .seed = 3});
  const auto users = device.make_stream(Priority::kNormal);
  int value = 0;
  Gate gate;
  gate.hold(*users);
  submit(*users, [&] { value = 1; });
  {
    const auto borrowed = device.borrow_stream(users->native());
    submit(*borrowed, [&] { EXPECT_EQ(value++, 1); });
  }
  submit(*users, [&] { EXPECT_EQ(value, 2); });
  gate.open();
  users->synchronize();
}

TEST(HostDevice, AStreamThatGoesDoesItsWorkFirst) {
  HostDevice device({.max_delay = 300us, .seed = 5});
  std::atomic<int> done{0};
  {
    const auto stream = device.make_stream(Priority::kNormal);
    for (int i = 0; i < 10; ++i) submit(*stream, [&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(HostDevice, MemoryIsCountedLimitedAndKnown) {
  HostDevice device({.memory_bytes = 1000});
  Memory memory = device.allocate(600);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
  EXPECT_EQ(memory.size(), 600u);
  EXPECT_EQ(device.allocated_bytes(), 600u);
  EXPECT_TRUE(device.owns(memory.data()));
  EXPECT_TRUE(device.owns(memory.data() + 599));
  EXPECT_FALSE(device.owns(memory.data() + 600));
  EXPECT_FALSE(device.owns(&memory));
  EXPECT_THAT(text_of_error([&] { device.allocate(401); }),
              HasSubstr("401 bytes of memory: 400 of 1000 bytes are free"));
  memory = device.allocate(400);  // the old one goes
  EXPECT_EQ(device.allocated_bytes(), 400u);
  memory = {};
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(HostDevice, MemoryMayOutliveTheDevice) {
  Memory memory;
  {
    HostDevice device;
    memory = device.allocate(64);
  }
  memory.data()[63] = std::byte{1};
}

TEST(Gpu, OneThatIsNotThereIsRefusedByNumber) {
  const int count = count_gpus();
  EXPECT_GE(count, 0);
  EXPECT_NE(text_of_error([&] { open_gpu(count); }), "no error");
  EXPECT_NE(text_of_error([&] { open_gpu(-1); }), "no error");
}

}  // namespace
}  // namespace horo::device
