#include "horo/coordinator/tensor_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

Entry entry(const std::string& name) {
  Entry made;
  made.request.name = name;
  return made;
}

TEST(TensorQueue, ANameIsPendingUntilReleased) {
  TensorQueue queue;
  queue.submit(entry("x"));
  EXPECT_THROW(queue.submit(entry("x")), InvalidArgument);
  EXPECT_EQ(queue.take().size(), 1u);
  EXPECT_THROW(queue.submit(entry("x")), InvalidArgument);
  queue.release("x");
  EXPECT_NO_THROW(queue.submit(entry("x")));
}

TEST(TensorQueue, AfterClosingSubmissionsEndWithTheError) {
  TensorQueue queue;
  queue.submit(entry("before"));
  queue.close(std::make_exception_ptr(ShutdownError("gone")));
  Entry late = entry("late");
  const auto completion = late.completion;
  queue.submit(std::move(late));
  EXPECT_THROW(completion->wait(), ShutdownError);
  EXPECT_EQ(queue.take().size(), 1u);
}

TEST(TensorQueue, SubmittingWakesTheSleeper) {
  TensorQueue queue;
  std::jthread submitter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    queue.submit(entry("x"));
  });
  queue.wait(std::chrono::minutes(10));
  EXPECT_FALSE(queue.is_empty());
}

TEST(TensorQueue, ManyThreadsSubmitEverythingOnce) {
  TensorQueue queue;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i)
          queue.submit(entry(std::to_string(t) + "." + std::to_string(i)));
      });
  }
  EXPECT_EQ(queue.take().size(), 1600u);
  EXPECT_TRUE(queue.is_empty());
}

}  // namespace
}  // namespace horo::coordinator
