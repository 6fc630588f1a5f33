// The contract of graphs on every device. Runs on the stand-in and on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "horo/base/error.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"
#include "tests/support/stream_gate.h"

namespace horo::device {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

/// A device, streams of it, and arrays of one size.
struct GraphTest : ::testing::Test {
  std::unique_ptr<Device> device = make_device({.max_delay = 100us, .seed = 7});
  std::unique_ptr<Stream> first = device->make_stream(),
                          second = device->make_stream(Priority::kHigh);
  std::unique_ptr<Event> forked = device->make_event(), joined = device->make_event();
  DeviceArray<std::uint8_t> a{*device, 1000}, b{*device, 1000}, c{*device, 1000};

  void set(const DeviceArray<std::uint8_t>& array, int value) {
    first->fill(array.data(), value, 1000);
  }
  Bytes all(int value) { return Bytes(1000, static_cast<std::uint8_t>(value)); }
  // Copies a to c through b, which the second stream writes.
  std::unique_ptr<Graph> capture_two_streams() {
    return device->capture(*first, [&] {
      first->record(*forked);
      second->wait(*forked);
      second->copy(b.data(), a.data(), 1000);
      second->record(*joined);
      set(c, 99);
      first->wait(*joined);
      first->copy(c.data(), b.data(), 1000);
    });
  }
  void expect_refused(const std::function<void()>& work) {
    EXPECT_THROW(device->capture(*first, work), DeviceError);
    // Nothing is captured any more.
    set(a, 5);
    first->record(*forked);
    second->wait(*forked);
    second->copy(b.data(), a.data(), 1000);
    EXPECT_EQ(b.values(*second), all(5));
    EXPECT_EQ(device->borrow_stream(first->native())->captured_in(), nullptr);
  }
};

TEST_F(GraphTest, RunsWorkAtEachLaunchOnly) {
  set(a, 1);
  set(b, 2);
  const auto graph = device->capture(*first, [&] {
    first->copy(b.data(), a.data(), 1000);
    EXPECT_NE(first->captured_in(), nullptr);
    EXPECT_EQ(second->captured_in(), nullptr);
  });
  EXPECT_EQ(b.values(*first), all(2));
  for (int round = 3; round < 8; ++round) {
    set(a, round);
    graph->launch(*first);
    set(a, 0);  // comes after it
    EXPECT_EQ(b.values(*first), all(round));
  }
}

TEST_F(GraphTest, KeepsStreamOrderAndReleasesStreams) {
  const auto graph = capture_two_streams();
  StreamGate gate(*device);
  gate.hold(*second);  // a graph has streams of its own
  for (int round = 1; round < 20; ++round) {
    set(a, round);
    graph->launch(*first);
    EXPECT_EQ(c.values(*first), all(round));
  }
  gate.open();
  second->synchronize();
}

TEST_F(GraphTest, LaunchesRunInOrderOnAnyStream) {
  const auto rotate = device->capture(*first, [&] {  // a, b, c = b, c, a
    first->copy(b.host().data(), a.data(), 1000);
    first->copy(a.data(), b.data(), 1000);
    first->copy(b.data(), c.data(), 1000);
    first->copy(c.data(), b.host().data(), 1000);
  });
  set(a, 1);
  set(b, 2);
  set(c, 3);
  first->synchronize();
  for (int round = 0; round < 10; ++round) rotate->launch(round % 2 == 0 ? *first : *second);
  second->synchronize();
  EXPECT_EQ(a.values(*first), all(2));  // ten times
  EXPECT_EQ(c.values(*first), all(1));
}

TEST_F(GraphTest, RejectsInvalidCapture) {
  expect_refused([&] {  // a stream that is not joined
    first->record(*forked);
    second->wait(*forked);
    set(a, 1);
    second->fill(b.data(), 2, 1000);
  });
  expect_refused([&] { first->synchronize(); });
  expect_refused([&] { (void)first->is_idle(); });
  expect_refused([&] {
    first->record(*forked);
    (void)forked->is_done();
  });
  second->record(*joined);
  expect_refused([&] { first->wait(*joined); });
  expect_refused([&] { (void)device->capture(*first, [] {}); });
  const auto graph = capture_two_streams();
  expect_refused([&] { graph->launch(*first); });
}

TEST_F(GraphTest, ErrorEndsCapture) {
  try {
    device->capture(*first, [&] {
      first->record(*forked);
      second->wait(*forked);
      second->fill(b.data(), 2, 1000);
      throw std::runtime_error("no such layer");
    });
    FAIL() << "a graph of half a step";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no such layer");
  }
  set(b, 4);
  EXPECT_EQ(b.values(*first), all(4));
  EXPECT_TRUE(second->is_idle());
  set(a, 6);
  capture_two_streams()->launch(*first);
  EXPECT_EQ(c.values(*first), all(6));
}

TEST_F(GraphTest, KeepsObjectsPassedToCapture) {
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = kept;
  auto graph = device->capture(*first, [&] {
    set(a, 3);
    first->captured_in()->keep(std::move(kept));
  });
  EXPECT_FALSE(seen.expired());
  graph->launch(*first);
  graph = nullptr;
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(a.values(*first), all(3));
  kept = std::make_shared<int>(2);
  const std::weak_ptr<int> given_up = kept;
  EXPECT_THROW(device->capture(*first,
                               [&] {
                                 first->captured_in()->keep(std::move(kept));
                                 throw DeviceError("given up");
                               }),
               DeviceError);
  EXPECT_TRUE(given_up.expired());
}

}  // namespace
}  // namespace horo::device
