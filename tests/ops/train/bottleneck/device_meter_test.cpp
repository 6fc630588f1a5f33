// On a fake of NVML.
#include "ops/train/bottleneck/device_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/cuda/nvml_device.h"
#include "tests/fakes/nvml/fake_nvml.h"

namespace horo::ops {
namespace {

using namespace std::chrono_literals;
using fakes::fake_nvml;
using fakes::FakeNvml;
using testing::HasSubstr;

constexpr const char* kAddress = "0000:01:00.0";

/// Resets the fake, and logs debug lines.
class DeviceMeters : public testing::Test {
 protected:
  DeviceMeters() {
    fake_nvml() = {};
    set_log_level(LogLevel::kDebug);
  }
  ~DeviceMeters() override {
    EXPECT_EQ(fake_nvml().balance, 0);
    set_log_level(level_);
  }

  /// What a meter has after a sample or an error.
  std::optional<DeviceCosts> measure(const std::string& address = kAddress) {
    const int before = fakes::fake_nvml_reads();
    testing::internal::CaptureStderr();
    std::optional<DeviceCosts> costs;
    {
      const DeviceMeter meter(address, {.interval = 1ms, .settling = 0ms});
      while (!costs && is_read_) {
        std::this_thread::sleep_for(1ms);
        costs = meter.costs();
        if (fails_ && fakes::fake_nvml_reads() > before) break;
      }
    }
    log_ = testing::internal::GetCapturedStderr();
    return costs;
  }

  bool is_read_ = true;  // the meter can open the device
  bool fails_ = false;   // but cannot read it
  std::string log_;

 private:
  const LogLevel level_ = log_level();
};

TEST_F(DeviceMeters, MeasureTheUseOfADevice) {
  fake_nvml().busy_percent = 40;
  fake_nvml().throttle_reasons = device::nvml::kThermalByHardware;
  const auto costs = measure();
  ASSERT_TRUE(costs);
  EXPECT_DOUBLE_EQ(costs->busy, 0.4);
  EXPECT_EQ(costs->hot, 1);
  EXPECT_EQ(costs->power_limited, 0);
  EXPECT_EQ(costs->memory_used, std::uint64_t{3} << 30);
  EXPECT_EQ(costs->memory_total, std::uint64_t{16} << 30);
  EXPECT_EQ(log_, "");
}

TEST_F(DeviceMeters, DoWithoutMemoryAndReasons) {
  fake_nvml().memory = fake_nvml().reasons = device::nvml::kNotSupported;
  fake_nvml().throttle_reasons = device::nvml::kPowerCap;
  const auto costs = measure();
  ASSERT_TRUE(costs);
  EXPECT_DOUBLE_EQ(costs->busy, 0.75);
  EXPECT_EQ(costs->power_limited, 0);
  EXPECT_EQ(costs->memory_used, 0u);
}

TEST_F(DeviceMeters, HaveNothingAfterAnErrorAndLogItOnce) {
  fails_ = true;
  const int before = fakes::fake_nvml_reads();
  fake_nvml().utilization = device::nvml::kNotSupported;
  EXPECT_FALSE(measure());
  EXPECT_THAT(log_, HasSubstr("lacks the use of the device: NVML: nvmlDeviceGetUtilizationRates "
                              "failed: Not Supported (3)"));
  EXPECT_EQ(std::ranges::count(log_, '\n'), 1);
  EXPECT_EQ(fakes::fake_nvml_reads(), before + 1);
  is_read_ = false;
  fake_nvml() = {.handle = device::nvml::kNotFound};
  EXPECT_FALSE(measure());
  EXPECT_THAT(log_, HasSubstr("NVML: the search for device 0000:01:00.0 failed"));
  fake_nvml() = {.init = 9};
  EXPECT_FALSE(measure());
  EXPECT_THAT(log_, HasSubstr("NVML: nvmlInit failed"));
  EXPECT_FALSE(measure(""));
  EXPECT_THAT(log_, HasSubstr("it is not a GPU"));
}

// Values of the first second count time before the begin.
TEST_F(DeviceMeters, LeaveOutTheFirstSamples) {
  const DeviceMeter meter(kAddress, {.interval = 1ms, .settling = 1h});
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(meter.costs());
}

TEST_F(DeviceMeters, ReadThrottleReasons) {
  const device::NvmlDevice device(kAddress);
  for (const auto& [reasons, is_hot, is_power_limited] :
       {std::tuple(0x1ull, false, false), std::tuple(0x4ull, false, true),
        std::tuple(0x20ull, true, false), std::tuple(0x80ull, false, true),
        std::tuple(0x44ull, true, true), std::tuple(0x102ull, false, false)}) {
    fake_nvml().throttle_reasons = reasons;
    EXPECT_EQ(device.read().is_hot, is_hot) << reasons;
    EXPECT_EQ(device.read().is_power_limited, is_power_limited) << reasons;
  }
}

}  // namespace
}  // namespace horo::ops
