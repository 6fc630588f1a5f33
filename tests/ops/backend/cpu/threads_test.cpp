#include "ops/backend/cpu/threads.h"

#include <gtest/gtest.h>

#include <thread>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

TEST(ComputeThreads, BelongToTheCallingThread) {
  const int before = compute_threads();
  int inside = 0;
  std::jthread([&] {
    set_compute_threads(3);
    inside = compute_threads();
  }).join();
  EXPECT_EQ(inside, 3);
  EXPECT_EQ(compute_threads(), before);
}

TEST(ComputeThreads, RefusesNone) {
  EXPECT_THROW(set_compute_threads(0), InvalidArgument);
  EXPECT_THROW(set_compute_threads(-2), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
