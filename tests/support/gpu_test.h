#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "horo/device/gpu.h"

namespace horo {

/// Whether a test that needs a GPU fails, instead of being skipped, on a machine without one. Set
/// by HORO_TEST_GPU=required, as in the preset gpu-required.
inline bool is_gpu_required() {
  const char* value = std::getenv("HORO_TEST_GPU");
  return value != nullptr && std::string_view(value) == "required";
}

}  // namespace horo

/// Skips the test, or fails it, if there is no GPU. Use at the start of a test or of SetUp(). CTest
/// recognises a skipped test by this text.
#define HORO_REQUIRE_GPU()                                                              \
  if (::horo::device::count_gpus() > 0) {                                               \
  } else if (::horo::is_gpu_required()) {                                               \
    FAIL() << "this test needs a GPU, none is usable here, and HORO_TEST_GPU=required"; \
  } else                                                                                \
    GTEST_SKIP() << "SKIPPED: this test needs a GPU, and none is usable here"
