#include "horo/device/host/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/gpu.h"
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

TEST(HostDevice, FailedWorkFailsStreamAndWaiters) {
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
  const auto has_bus_error = HasSubstr("the bus fell off");
  EXPECT_THAT(text_of_error([&] { late->synchronize(); }), has_bus_error);
  EXPECT_THAT(text_of_error([&] { after->is_done(); }), has_bus_error);
  EXPECT_TRUE(before->is_done());
  EXPECT_THAT(text_of_error([&] { failing->synchronize(); }), has_bus_error);
  EXPECT_THAT(text_of_error([&] { waiting->fill(nullptr, 0, 0); }), has_bus_error);
  EXPECT_THAT(text_of_error([&] { failing->record(*before); }), has_bus_error);
  EXPECT_FALSE(has_run);
  healthy->record(*before);
  before->synchronize();
}

TEST(HostDevice, DestroyedStreamCompletesWork) {
  HostDevice device({.max_delay = 300us, .seed = 5});
  std::atomic<int> done{0};
  {
    const auto stream = device.make_stream(Priority::kNormal);
    for (int i = 0; i < 10; ++i) submit(*stream, [&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(HostDevice, GraphKeepsOrderOfEventsOnly) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    HostDevice device({.max_delay = 100us, .seed = seed});
    const auto origin = device.make_stream(Priority::kNormal);
    std::deque<std::unique_ptr<Stream>> others;
    for (int i = 0; i < 3; ++i) others.push_back(device.make_stream(Priority::kNormal));
    const auto event = device.make_event();
    std::array<int, 3> values{};
    std::vector<int> sums;
    int step = 0;
    const auto graph = device.capture(*origin, [&] {
      submit(*origin, [&] { ++step; });
      origin->record(*event);
      for (std::size_t i = 0; i < 3; ++i) {
        others[i]->wait(*event);
        submit(*others[i], [&, i] { values[i] = step * static_cast<int>(i + 1); });
      }
      for (const auto& other : others) {
        other->record(*event);
        origin->wait(*event);
      }
      submit(*origin, [&] { sums.push_back(values[0] + values[1] + values[2]); });
    });
    EXPECT_EQ(step, 0);
    for (int launch = 0; launch < 4; ++launch) graph->launch(*origin);
    origin->synchronize();
    EXPECT_EQ(sums, (std::vector<int>{6, 12, 18, 24}));
  }
}

TEST(HostDevice, FailedGraphFailsLaunchingStream) {
  HostDevice device;
  const auto captured = device.make_stream(Priority::kNormal);
  const auto stream = device.make_stream(Priority::kNormal);
  std::promise<void> launched;
  const auto graph = device.capture(*captured, [&] {
    submit(*captured, [&] {
      launched.get_future().wait();  // otherwise launch() itself might throw the error
      throw DeviceError("the bus fell off");
    });
  });
  graph->launch(*stream);
  launched.set_value();
  EXPECT_THAT(text_of_error([&] { stream->synchronize(); }), HasSubstr("the bus fell off"));
  captured->fill(nullptr, 0, 0);
  captured->synchronize();
}

TEST(HostDevice, CapturedEventIsUnusableElsewhere) {
  HostDevice device;
  const auto stream = device.make_stream(Priority::kNormal);
  const auto other = device.make_stream(Priority::kNormal);
  const auto event = device.make_event(), fresh = device.make_event();
  EXPECT_THAT(text_of_error([&] { device.capture(*stream, [&] { stream->wait(*fresh); }); }),
              HasSubstr("was not recorded there"));
  const auto graph = device.capture(*stream, [&] {
    stream->record(*event);
    EXPECT_THAT(text_of_error([&] { device.capture(*other, [&] { other->wait(*event); }); }),
                HasSubstr("another capture"));
  });
  EXPECT_THAT(text_of_error([&] { event->is_done(); }), HasSubstr("recorded in a capture"));
  EXPECT_THAT(text_of_error([&] { event->synchronize(); }), HasSubstr("recorded in a capture"));
  EXPECT_THAT(text_of_error([&] { other->wait(*event); }), HasSubstr("recorded in a capture"));
  stream->record(*event);
  event->synchronize();
}

TEST(HostDevice, CountsAndLimitsMemory) {
  HostDevice device({.memory_bytes = 1000});
  Memory memory = device.allocate(600);
  EXPECT_EQ(device.allocated_bytes(), 600u);
  EXPECT_FALSE(device.owns(memory.data() + 600));
  EXPECT_THAT(text_of_error([&] { device.allocate(401); }),
              HasSubstr("401 bytes of memory: 400 of 1000 bytes are free"));
  memory = device.allocate(400);  // frees the previous memory
  EXPECT_EQ(device.allocated_bytes(), 400u);
  memory = {};
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

TEST(HostDevice, MemoryMayOutliveDevice) {
  Memory memory;
  {
    HostDevice device;
    memory = device.allocate(64);
  }
  memory.data()[63] = std::byte{1};
}

TEST(Gpu, MissingGpuIsRejectedByNumber) {
  const int count = count_gpus();
  EXPECT_GE(count, 0);
  EXPECT_NE(text_of_error([&] { open_gpu(count); }), "no error");
  EXPECT_NE(text_of_error([&] { open_gpu(-1); }), "no error");
}

}  // namespace
}  // namespace horo::device
