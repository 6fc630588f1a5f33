#include "horo/base/device/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "horo/base/device/gpu.h"
#include "horo/base/error.h"
#include "tests/support/stream_gate.h"

namespace horo::device {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

template <typename Function>
std::string text_of_error(Function&& function) {
  try {
    function();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostDevice, WorkThatFailsEndsItsStreamAndWhoWaitsForIt) {
  HostDevice device;
  const auto failing = device.make_stream(Priority::kNormal);
  const auto waiting = device.make_stream(Priority::kNormal);
  const auto healthy = device.make_stream(Priority::kNormal);
  const auto before = device.make_event(), after = device.make_event(), late = device.make_event();
  StreamGate gate(device);
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

TEST(HostDevice, AStreamThatGoesDoesItsWorkFirst) {
  HostDevice device({.max_delay = 300us, .seed = 5});
  std::atomic<int> done{0};
  {
    const auto stream = device.make_stream(Priority::kNormal);
    for (int i = 0; i < 10; ++i) submit(*stream, [&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(HostDevice, MemoryIsCountedAndLimited) {
  HostDevice device({.memory_bytes = 1000});
  Memory memory = device.allocate(600);
  EXPECT_EQ(device.allocated_bytes(), 600u);
  EXPECT_FALSE(device.owns(memory.data() + 600));
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
