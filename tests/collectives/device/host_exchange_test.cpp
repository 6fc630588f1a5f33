#include "collectives/device/host_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/host/host_device.h"
#include "tests/support/device_array.h"
#include "tests/support/stream_gate.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using device::DeviceArray;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 64;

/// A device with streams that are delayed at random, and an exchange.
struct Fixture {
  device::HostDevice host{{.max_delay = 50us, .seed = 3}};
  device::Device& device = host;
  FirstFailure failure;
  std::unique_ptr<device::Stream> stream = device.make_stream();
  const DeviceArray<int> x{device, *stream, {7}};  // must outlive the copies of the exchange
  HostExchange exchange{device, kBytes, failure};

  // Passes the value of x through a slot.
  void pass(HostExchange::Work work) {
    auto* const at = reinterpret_cast<std::byte*>(x.data());
    const HostExchange::Down down{at, 0, sizeof(int)};
    const HostExchange::Up up{at, 0, sizeof(int)};
    exchange.pass(exchange.next(*stream), *stream, std::span(&down, 1), std::move(work),
                  std::span(&up, 1));
    exchange.await_all(*stream);  // the next pass uses the same memory
  }
};

int& first(std::byte* pinned) { return *reinterpret_cast<int*>(pinned); }

// The host enqueues many more passes than there are slots before the device begins the first one.
TEST(HostExchange, HostMayRunAhead) {
  Fixture own;
  device::StreamGate gate(own.device);
  gate.hold(*own.stream);
  std::vector<int> seen;
  for (int k = 0; k < 50; ++k) {
    own.pass([&seen](std::byte* pinned) { seen.push_back(first(pinned)++); });
  }
  gate.open();
  EXPECT_EQ(own.x.values(*own.stream)[0], 57);
  for (int k = 0; k < 50; ++k) EXPECT_EQ(seen[static_cast<std::size_t>(k)], 7 + k);
  EXPECT_FALSE(own.failure.is_set());
}

// The functions run on the thread of the exchange, on which libraries of the device may be called,
// and not on a thread that runs host functions of streams.
TEST(HostExchange, FunctionsRunOnOneThreadThatMayUseDevice) {
  Fixture own;
  std::set<std::thread::id> of_work, of_streams;
  for (int k = 0; k < 5; ++k) {
    own.pass([&](std::byte*) {
      of_work.insert(std::this_thread::get_id());
      // Host functions of a GPU share a thread, so this would deadlock in one of them.
      const auto other = own.device.make_stream();
      other->run_on_host([&] { of_streams.insert(std::this_thread::get_id()); });
      other->synchronize();
    });
    own.exchange.call(*own.stream, [&] { of_work.insert(std::this_thread::get_id()); });
  }
  own.stream->synchronize();
  EXPECT_EQ(of_work.size(), 1u);
  EXPECT_FALSE(of_streams.contains(*of_work.begin()));
}

TEST(HostExchange, StreamWaitsForCall) {
  Fixture own;
  std::promise<void> may_return;
  std::atomic<bool> has_returned = false;
  own.exchange.call(*own.stream, [&] {
    may_return.get_future().wait();
    has_returned = true;
  });
  const auto done = own.device.make_event();
  own.stream->record(*done);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(done->is_done());
  may_return.set_value();
  done->synchronize();
  EXPECT_TRUE(has_returned);
}

TEST(HostExchange, ExceptionSkipsLaterPassesButNoCall) {
  Fixture own;
  bool is_called = false;
  own.pass([](std::byte*) { throw CommunicationError("the link is cut"); });
  own.pass([](std::byte*) { ADD_FAILURE() << "a pass after a failure"; });
  own.exchange.call(*own.stream, [&] { is_called = true; });
  own.stream->synchronize();  // the stream continues
  EXPECT_TRUE(is_called);
  EXPECT_EQ(own.failure.text(), "the link is cut");
}

// The rank whose device fails can still inform the other ranks.
TEST(HostExchange, FailedStreamIsFailureAndCallsRun) {
  Fixture own;
  std::promise<void> called;
  device::StreamGate gate(own.device);
  gate.hold(*own.stream);
  own.stream->run_on_host([] { throw DeviceError("an illegal memory access"); });
  own.pass([](std::byte*) { ADD_FAILURE() << "a pass without data"; });
  own.exchange.call(*own.stream, [&] { called.set_value(); });
  gate.open();
  EXPECT_EQ(called.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_THAT(own.failure.text().value_or(""), HasSubstr("an illegal memory access"));
}

// An abort must end the wait of the thread even if the device does not complete its work.
TEST(HostExchange, FailureEndsWaitForDevice) {
  Fixture own;
  device::StreamGate gate(own.device);
  gate.hold(*own.stream);
  std::promise<void> called;
  own.pass([](std::byte*) { ADD_FAILURE() << "a pass after a failure"; });
  own.exchange.call(*own.stream, [&] { called.set_value(); });
  auto future = called.get_future();
  EXPECT_EQ(future.wait_for(10ms), std::future_status::timeout);
  own.failure.set("aborted");
  EXPECT_EQ(future.wait_for(10s), std::future_status::ready);
  gate.open();
  own.exchange.finish();
  own.stream->synchronize();
}

}  // namespace
}  // namespace horo::collectives
