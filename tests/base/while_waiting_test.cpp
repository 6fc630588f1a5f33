#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "horo/base/error.h"
#include "horo/base/wait.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

TEST(WhileWaiting, WorkMayEndWait) {
  for (const WaitPolicy& policy :
       {WaitPolicy{.spin = 1h}, WaitPolicy{.yield = 1h}, WaitPolicy{.yield = 0s}}) {
    int steps = 0;
    const WhileWaiting meanwhile([&] { return ++steps % 3 == 0; });
    for (Waiter waiter(policy); steps < 100;) waiter.pause("for 100 steps");
  }
}

TEST(WhileWaiting, EndsWithScope) {
  EXPECT_FALSE(WhileWaiting::work_once());
  int steps = 0;
  {
    const WhileWaiting meanwhile([&] { return ++steps > 1; });
    EXPECT_FALSE(WhileWaiting::work_once());
    EXPECT_TRUE(WhileWaiting::work_once());
    EXPECT_THROW(WhileWaiting([] { return true; }), InvalidArgument) << "one at a time";
    std::jthread([&] { EXPECT_FALSE(WhileWaiting::work_once()) << "another thread's work"; });
  }
  EXPECT_FALSE(WhileWaiting::work_once());
  EXPECT_EQ(steps, 2);
}

TEST(WhileWaiting, ExceptionOfWorkEndsWait) {
  const WaitPolicy policy{.yield = 0s};
  const WhileWaiting meanwhile([]() -> bool { throw std::runtime_error("the wire broke"); });
  Waiter waiter(policy);
  EXPECT_THROW(while (true) waiter.pause("for nothing"), std::runtime_error);
}

TEST(WhileWaiting, WorkDoesNotExtendDeadline) {
  const WaitPolicy policy{.timeout = 5ms};
  const WhileWaiting meanwhile([] { return true; });
  Waiter waiter(policy);
  EXPECT_THROW(while (true) waiter.pause("for nothing"), CommunicationError);
}

}  // namespace
}  // namespace horo
