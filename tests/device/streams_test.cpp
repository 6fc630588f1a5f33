// The contract of streams on every device. Runs on the stand-in and on a GPU
// (tests/support/device_under_test.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"
#include "tests/support/stream_gate.h"

namespace horo::device {
namespace {

using namespace std::chrono_literals;

TEST(Streams, RunInOrderWithoutBlockingCaller) {
  const auto device = make_device({.max_delay = 50us, .seed = 1});
  const auto stream = device->make_stream();
  std::vector<int> done;
  StreamGate gate(*device);
  gate.hold(*stream);
  for (int i = 0; i < 20; ++i) stream->run_on_host([&done, i] { done.push_back(i); });
  EXPECT_FALSE(stream->is_idle());
  gate.open();
  stream->synchronize();
  EXPECT_TRUE(stream->is_idle());
  ASSERT_EQ(done.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(Streams, AreIndependent) {
  const auto device = make_device();
  const auto held = device->make_stream();
  const auto other = device->make_stream(Priority::kHigh);
  StreamGate gate(*device);
  gate.hold(*held);
  std::atomic<bool> has_run = false;
  other->run_on_host([&] { has_run = true; });
  other->synchronize();
  EXPECT_TRUE(has_run);
  EXPECT_FALSE(held->is_idle());
  gate.open();
  held->synchronize();
}

TEST(Streams, WaitForSignals) {
  const auto device = make_device();
  const auto signal = device->make_signal();
  const auto first = device->make_stream(), second = device->make_stream();
  const auto first_done = device->make_event(), second_done = device->make_event();
  const DeviceArray<int> x(*device, 1);
  x.host()[0] = 1;
  first->wait(*signal, 1);
  x.upload(*first);
  first->record(*first_done);
  second->wait(*signal, 3);
  second->record(*second_done);
  std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(first_done->is_done());
  x.host()[0] = 5;  // streams see writes before raise()
  signal->raise(2);
  first_done->synchronize();
  EXPECT_FALSE(second_done->is_done());
  signal->raise(3);
  second_done->synchronize();
  EXPECT_EQ(x.values(*first)[0], 5);
  first->wait(*signal, 2);  // reached before
  first->synchronize();
}

TEST(Streams, SignalsCompareNumbersModuloTwoToThe32) {
  static_assert(has_reached(0, 0) && has_reached(5, 4) && !has_reached(4, 5));
  static_assert(has_reached(1, 0xffffffff) && !has_reached(0xffffffff, 1));
  const auto device = make_device();
  const auto signal = device->make_signal();
  const auto stream = device->make_stream();
  signal->raise(0x7fffffff);
  signal->raise(0xfffffff0);
  signal->raise(3);
  stream->wait(*signal, 0xffffffff);
  stream->synchronize();
}

TEST(Streams, CapturesRejectSignals) {
  const auto device = make_device();
  const auto signal = device->make_signal();
  const auto stream = device->make_stream();
  EXPECT_THROW(device->capture(*stream, [&] { stream->wait(*signal, 1); }), DeviceError);
  stream->synchronize();
}

TEST(Streams, CopyAndFill) {
  const auto device = make_device();
  const auto stream = device->make_stream();
  const DeviceArray<std::uint8_t> a(*device, 1001), b(*device, 1001);
  for (std::size_t i = 0; i < 1001; ++i) a.host()[i] = static_cast<std::uint8_t>(i % 251);
  a.upload(*stream);
  stream->copy(b.data(), a.data(), 1001);
  stream->fill(a.data(), 7, 1000);
  stream->copy(nullptr, nullptr, 0);
  const std::vector<std::uint8_t> filled = a.values(*stream), copied = b.values(*stream);
  for (std::size_t i = 0; i < 1001; ++i) {
    ASSERT_EQ(copied[i], i % 251);
    ASSERT_EQ(filled[i], i < 1000 ? 7 : 1000 % 251);
  }
}

TEST(Streams, WaitOrdersWorkAfterEvent) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto device = make_device({.max_delay = 200us, .seed = seed});
    const auto first = device->make_stream();
    const auto second = device->make_stream();
    const auto event = device->make_event();
    int value = 0;
    for (int round = 0; round < 3; ++round) {
      first->run_on_host([&value, round] { value = 10 * round + 1; });
      first->record(*event);
      second->wait(*event);
      second->run_on_host([&value, round] { EXPECT_EQ(value, 10 * round + 1); });
      second->record(*event);
      first->wait(*event);
    }
    event->synchronize();
    EXPECT_TRUE(event->is_done());
  }
}

TEST(Streams, UnrecordedEventIsComplete) {
  const auto device = make_device();
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  EXPECT_TRUE(event->is_done());
  event->synchronize();
  stream->wait(*event);
  stream->synchronize();
}

TEST(Streams, WaitUsesLatestRecordAndOutlivesEvent) {
  const auto device = make_device();
  const auto first = device->make_stream();
  const auto second = device->make_stream();
  const auto waiting = device->make_stream();
  auto event = device->make_event();
  first->record(*event);
  waiting->wait(*event);
  StreamGate gate(*device);
  gate.hold(*second);
  second->record(*event);
  waiting->synchronize();  // does not wait for the second record
  EXPECT_FALSE(event->is_done());
  waiting->wait(*event);
  event.reset();
  EXPECT_FALSE(waiting->is_idle());
  gate.open();
  waiting->synchronize();
  second->synchronize();
}

TEST(Streams, BorrowedStreamBelongsToUser) {
  const auto device = make_device({.max_delay = 100us, .seed = 3});
  const auto users = device->make_stream();
  int value = 0;
  StreamGate gate(*device);
  gate.hold(*users);
  users->run_on_host([&] { value = 1; });
  {
    const auto borrowed = device->borrow_stream(users->native());
    borrowed->run_on_host([&] { EXPECT_EQ(value++, 1); });
  }
  users->run_on_host([&] { EXPECT_EQ(value, 2); });
  gate.open();
  users->synchronize();
}

TEST(Streams, ExceptionOfHostWorkFailsStream) {
  const auto device = make_device();
  const auto stream = device->make_stream();
  StreamGate gate(*device);
  gate.hold(*stream);
  bool has_run = false;
  stream->run_on_host([] { throw CommunicationError("rank 3 is lost"); });
  stream->run_on_host([&] { has_run = true; });
  gate.open();
  const auto text_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text_of([&] { stream->synchronize(); }), "rank 3 is lost");
  EXPECT_EQ(text_of([&] { stream->run_on_host([] {}); }), "rank 3 is lost");
  EXPECT_EQ(text_of([&] { (void)stream->is_idle(); }), "rank 3 is lost");
  EXPECT_FALSE(has_run);
}

TEST(DeviceMemory, IsAlignedAndOwnedByDevice) {
  const auto device = make_device();
  const Memory memory = device->allocate(600), pinned = device->allocate_pinned(600);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
  EXPECT_EQ(memory.size(), 600u);
  EXPECT_TRUE(device->owns(memory.data()));
  EXPECT_TRUE(device->owns(memory.data() + 599));
  EXPECT_FALSE(device->owns(pinned.data()));
  EXPECT_FALSE(device->owns(&memory));
}

TEST(DeviceMemory, FailureNamesBytesAndDeviceContinues) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  const auto device = make_device({.memory_bytes = 1000});
  try {
    device->allocate(kTooMuch);
    FAIL() << "a petabyte";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot allocate 1125899906842624 bytes"));
  }
  EXPECT_NE(device->allocate(1000).data(), nullptr);
}

TEST(Streams, TimedEventsMeasureInterval) {
  const auto device = make_device();
  const auto stream = device->make_stream();
  const auto first = device->make_timed_event(), second = device->make_timed_event();
  StreamGate gate(*device);
  stream->record(*first);
  gate.hold(*stream);
  stream->record(*second);
  first->synchronize();
  EXPECT_THROW(device->milliseconds_between(*first, *second), DeviceError);
  std::this_thread::sleep_for(20ms);
  gate.open();
  second->synchronize();
  EXPECT_GT(device->milliseconds_between(*first, *second), 10);
  EXPECT_EQ(device->milliseconds_between(*first, *first), 0);
}

}  // namespace
}  // namespace horo::device
