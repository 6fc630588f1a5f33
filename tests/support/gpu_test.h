#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "horo/base/device/gpu.h"

namespace horo {

/// Whether a machine without a GPU fails the tests that need one: HORO_TEST_GPU=required, as in the
/// preset gpu-required.
inline bool is_gpu_required() {
  const char* value = std::getenv("HORO_TEST_GPU");
  return value != nullptr && std::string_view(value) == "required";
}

}  // namespace horo

/// At the beginning of a test, or of SetUp(). ctest knows the text for that of a skipped test.
#define HORO_REQUIRE_GPU()                                                              \
  if (::horo::device::count_gpus() > 0) {                                               \
  } else if (::horo::is_gpu_required()) {                                               \
    FAIL() << "this test needs a GPU, none is usable here, and HORO_TEST_GPU=required"; \
  } else                                                                                \
    GTEST_SKIP() << "SKIPPED: this test needs a GPU, and none is usable here"
