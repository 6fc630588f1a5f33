#include "horo/coordinator/tensor_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

Entry entry(const std::string& name) {
  Entry made;
  made.request.name = name;
  return made;
}

TEST(TensorQueue, NameIsPendingUntilReleased) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  queue.submit(entry("x"));
  EXPECT_THROW(queue.submit(entry("x")), InvalidArgument);
  EXPECT_EQ(queue.take_all().size(), 1u);
  EXPECT_THROW(queue.submit(entry("x")), InvalidArgument);
  queue.release(entry("x").request);
  EXPECT_NO_THROW(queue.submit(entry("x")));
}

TEST(TensorQueue, RejectedGroupAddsNoNames) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  queue.submit(entry("b"));
  Entry group = entry("a");
  for (const char* name : {"a", "b", "c"})
    group.request.members.push_back({name, DataType::kFloat32, Shape{1}});
  EXPECT_THROW(queue.submit(std::move(group)), InvalidArgument);
  EXPECT_NO_THROW(queue.submit(entry("c")));
  EXPECT_NO_THROW(queue.submit(entry("a")));
  EXPECT_EQ(queue.take_all().size(), 3u);
}

TEST(TensorQueue, GroupHoldsNamesOfItsTensors) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  Entry group = entry("g");
  for (const char* name : {"a", "b"})
    group.request.members.push_back({name, DataType::kFloat32, Shape{1}});
  const Request request = group.request;
  queue.submit(std::move(group));
  for (const char* name : {"g", "a", "b"}) EXPECT_THROW(queue.submit(entry(name)), InvalidArgument);
  queue.release(request);
  for (const char* name : {"g", "a", "b"}) EXPECT_NO_THROW(queue.submit(entry(name)));
}

TEST(TensorQueue, RejectsGroupWithRepeatedName) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  Entry group = entry("g");
  for (const char* name : {"a", "b", "a"})
    group.request.members.push_back({name, DataType::kFloat32, Shape{1}});
  EXPECT_THROW(queue.submit(std::move(group)), InvalidArgument);
  EXPECT_NO_THROW(queue.submit(entry("g")));
}

TEST(TensorQueue, AcceptsOnlyShutdownAfterJoin) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  Entry join = entry(std::string(kJoinName));
  join.request.kind = Kind::kJoin;
  queue.submit(std::move(join));
  EXPECT_THROW(queue.submit(entry("x")), InvalidArgument);
  Entry shutdown = entry(std::string(kShutdownName));
  shutdown.request.kind = Kind::kShutdown;
  EXPECT_NO_THROW(queue.submit(std::move(shutdown)));
}

TEST(TensorQueue, FailsSubmissionsAfterClose) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  queue.submit(entry("before"));
  queue.close(std::make_exception_ptr(ShutdownError("gone")));
  Entry late = entry("late");
  const auto completion = late.completion;
  queue.submit(std::move(late));
  EXPECT_THROW(completion->wait(), ShutdownError);
  EXPECT_EQ(queue.take_all().size(), 1u);
}

TEST(TensorQueue, SubmissionWakesThread) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  std::jthread submitter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    queue.submit(entry("x"));
  });
  doorbell.announce(Doorbell::Sleep::kDeep);
  doorbell.wait(0, std::chrono::minutes(10));
  EXPECT_FALSE(queue.is_empty());
}

TEST(TensorQueue, KeepsEveryEntryOfManyThreads) {
  Doorbell doorbell;
  TensorQueue queue(doorbell);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i)
          queue.submit(entry(std::to_string(t) + "." + std::to_string(i)));
      });
  }
  EXPECT_EQ(queue.take_all().size(), 1600u);
  EXPECT_TRUE(queue.is_empty());
}

}  // namespace
}  // namespace horo::coordinator
