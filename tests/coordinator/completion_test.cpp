#include "horo/coordinator/completion.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace horo::coordinator {
namespace {

TEST(Completion, ManyWaitersSeeTheSameOutcome) {
  Completion completion;
  std::atomic<int> errors{0};
  {
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 6; ++i)
      waiters.emplace_back([&] {
        try {
          completion.wait();
        } catch (const MismatchError&) {
          ++errors;
        }
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(completion.is_done());
    completion.complete(std::make_exception_ptr(MismatchError("x")));
  }
  EXPECT_EQ(errors, 6);
  EXPECT_TRUE(completion.is_done());
  EXPECT_THROW(completion.wait(), MismatchError);
}

}  // namespace
}  // namespace horo::coordinator
