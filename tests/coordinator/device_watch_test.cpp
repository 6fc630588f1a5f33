#include "horo/coordinator/device_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "collectives/device/device_collectives.h"
#include "horo/base/error.h"
#include "horo/device/host/host_device.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;

class CollectivesWithoutPeer : public collectives::LoneCollectives {
 public:
  std::optional<std::string> failure() const override { return "remote process exited"; }
};

/// Rank 1 of 3 ranks on separate nodes, after the process of its peer has exited.
class DeviceWatchTest : public ::testing::Test {
 protected:
  DeviceWatchTest() {
    policy_.abort = &abort_;
    watch_.watch(&collectives_);
  }
  // Returns the error that ends the job.
  std::string end_job(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(watch_.end_job(error, "allreduce 'x'"));
    } catch (const CommunicationError& failure) {
      return failure.what();
    }
  }
  std::chrono::nanoseconds age() const { return std::chrono::steady_clock::now() - begin_; }

  const std::string own_ = "rank 1 (host b) failed in allreduce 'x': remote process exited";
  AbortSignal abort_;
  WaitPolicy policy_;
  device::HostDevice device_;
  CollectivesWithoutPeer collectives_;
  DeviceWatch watch_{policy_, device_, make_topology(1, {"a", "b", "c"}, {"a", "b", "c"}),
                     [this](const std::string& why) { abort_.raise(why); }};
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(DeviceWatchTest, WaitsForReasonOfFailedPeer) {
  const std::string why = "rank 2 (host c) failed in allreduce 'x': an illegal memory access";
  const std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    abort_.raise(why);
  });
  EXPECT_EQ(end_job(watch_.error()), why);
}

TEST_F(DeviceWatchTest, ReportsPeerFailureWithoutReason) {
  EXPECT_EQ(end_job(watch_.error()), own_);
  EXPECT_GE(age(), 1s);
}

TEST_F(DeviceWatchTest, ReportsOwnDeviceAtOnce) {
  try {
    throw DeviceError("an illegal memory access");
  } catch (const DeviceError&) {
    EXPECT_EQ(end_job(watch_.error()), own_);
  }
  EXPECT_LT(age(), 1s);
}

}  // namespace
}  // namespace horo::coordinator
