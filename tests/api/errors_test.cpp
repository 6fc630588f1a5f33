#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

TEST(Errors, AnotherShapeIsAMismatchOnEveryRankAndTheNextCollectiveWorks) {
  for (int ranks : {2, 4}) {
    run_ranks(ranks, [](Context& ctx) {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> x(ctx.rank() == 1 ? 18 : 17, static_cast<float>(ctx.rank()));
        const std::string text =
            error_text<MismatchError>([&] { ctx.allreduce(TensorView(x), {.name = "fc1.grad"}); });
        EXPECT_THAT(text, HasSubstr("'fc1.grad'"));
        EXPECT_THAT(text, HasSubstr("rank 0 "));
        EXPECT_THAT(text, HasSubstr("rank 1 "));
        EXPECT_THAT(text, HasSubstr("[17]"));
        EXPECT_THAT(text, HasSubstr("[18]"));
        std::vector<float> y(17, static_cast<float>(ctx.rank() + 1));
        ctx.allreduce(TensorView(y), {.name = "fc1.grad", .op = ReduceOp::kMax});
        EXPECT_EQ(y[0], static_cast<float>(ctx.size()));
      }
    });
  }
}

TEST(Errors, EveryFieldIsCompared) {
  run_ranks(2, [](Context& ctx) {
    const bool odd = ctx.rank() == 1;
    std::vector<float> f(4);
    std::vector<double> d(4);
    EXPECT_THAT(error_text<MismatchError>(
                    [&] { ctx.allreduce(odd ? TensorView(d) : TensorView(f), {.name = "a"}); }),
                HasSubstr("element types"));
    EXPECT_THAT(
        error_text<MismatchError>([&] {
          ctx.allreduce(TensorView(f), {.name = "b", .op = odd ? ReduceOp::kMin : ReduceOp::kSum});
        }),
        HasSubstr("(sum) of float32 [4], rank 1 (host thread-node-0) submitted allreduce (min)"));
    EXPECT_THAT(error_text<MismatchError>(
                    [&] { ctx.broadcast(TensorView(f), {.name = "c", .root = ctx.rank()}); }),
                HasSubstr("roots"));
    EXPECT_THAT(error_text<MismatchError>([&] {
                  odd ? ctx.broadcast(TensorView(f), {.name = "d"})
                      : ctx.allreduce(TensorView(f), {.name = "d"});
                }),
                HasSubstr("operations"));
    ctx.barrier();
  });
}

TEST(Errors, AShapeThatChangesAfterItWasCachedIsAMismatch) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(10);
    for (int k = 0; k < 3; ++k) ctx.allreduce(TensorView(x), {.name = "x"});
    std::vector<float> changed(ctx.rank() == 2 ? 11 : 10);
    EXPECT_THAT(
        error_text<MismatchError>([&] { ctx.allreduce(TensorView(changed), {.name = "x"}); }),
        HasSubstr("[11]"));
    std::vector<float> larger(12, 1.0f);
    ctx.allreduce(TensorView(larger), {.name = "x", .op = ReduceOp::kSum});
    EXPECT_EQ(larger[11], 3.0f);
  });
}

TEST(Errors, APendingNameCannotBeUsedAgain) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(3, 1.0f);
    std::vector<float> y(3);
    if (ctx.rank() == 0) {
      const Handle first = ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { (void)ctx.allreduce_async(TensorView(y), {.name = "x"}); }),
                  HasSubstr("'x' is already pending"));
      ctx.barrier();
      first.wait();
    } else {
      ctx.barrier();
      ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    }
    EXPECT_EQ(x[0], 2.0f);
  });
}

TEST(Errors, BadArgumentsAreRefusedBeforeAnythingIsSubmitted) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(6);
    std::vector<float> y(6);
    std::vector<double> d(6);
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { ctx.broadcast(TensorView(x), {.name = "w", .root = 2}); }),
                HasSubstr("root 2 is not one of the 2 ranks 0 ... 1"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { ctx.allgather(TensorView(x), TensorView(d)); }),
                HasSubstr("input is float32, output is float64"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.allgather(TensorView(x.data(), {2, 3}), TensorView(y.data(), {3, 2}));
                }),
                HasSubstr("first dimension only"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.allgather(TensorView(x), TensorView(nullptr, DataType::kFloat32, {12}));
                }),
                HasSubstr("the output has no memory"));
    EXPECT_THAT(
        error_text<InvalidArgument>([&] { ctx.reduce_scatter(TensorView(x), TensorView(y)); }),
        HasSubstr("gets 3 of 6 rows"));
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { ctx.allreduce(TensorView(nullptr, DataType::kFloat32, {4})); }),
                HasSubstr("no memory"));
    ctx.barrier();
  });
}

TEST(Errors, AWrongAllgatherOutputIsReportedWhereItIs) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> input(3, static_cast<float>(ctx.rank()));
    std::vector<float> output(ctx.rank() == 0 ? 6 : 5);
    if (ctx.rank() == 0) {
      ctx.allgather(TensorView(input), TensorView(output), {.name = "g"});
      EXPECT_EQ(output[5], 1.0f);
    } else {
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { ctx.allgather(TensorView(input), TensorView(output), {.name = "g"}); }),
                  HasSubstr("6 rows together"));
    }
    ctx.barrier();
  });
}

TEST(Errors, AnAlltoallMismatchIsTheSameOnEveryRankAndTheNextWorks) {
  for (int ranks : {2, 4}) {
    run_ranks(ranks, [](Context& ctx) {
      const bool odd = ctx.rank() == 1;
      const auto n = static_cast<std::size_t>(ctx.size());
      std::vector<float> f(n * 6), received(n * 6);
      std::vector<std::int32_t> i(n * 6), received_i(n * 6);
      for (int round = 0; round < 2; ++round) {
        EXPECT_THAT(error_text<MismatchError>([&] {
                      odd ? ctx.alltoall(TensorView(i), TensorView(received_i), {.name = "tokens"})
                          : ctx.alltoall(TensorView(f), TensorView(received), {.name = "tokens"});
                    }),
                    AllOf(HasSubstr("tensor 'tokens': rank 0 "), HasSubstr("alltoall of float32"),
                          HasSubstr("rank 1 "), HasSubstr("alltoall of int32"),
                          HasSubstr("the element types differ")));
        const Shape shape = odd ? Shape{n * 2, 3} : Shape{n * 3, 2};
        EXPECT_THAT(
            error_text<MismatchError>([&] {
              ctx.alltoall(TensorView(f.data(), shape), TensorView(received.data(), shape),
                           {.name = "tokens"});
            }),
            AllOf(HasSubstr("tensor 'tokens': rank 0 "), HasSubstr(Shape{n * 3, 2}.to_string()),
                  HasSubstr(Shape{n * 2, 3}.to_string()), HasSubstr("the shapes differ")));
        EXPECT_THAT(error_text<MismatchError>([&] {
                      odd ? ctx.allreduce(TensorView(f), {.name = "tokens"})
                          : (void)ctx.alltoall(TensorView(f), TensorView(received),
                                               {.name = "tokens"});
                    }),
                    HasSubstr("the operations differ"));
        std::fill(f.begin(), f.end(), static_cast<float>(ctx.rank()));
        ctx.alltoall(TensorView(f), TensorView(received), {.name = "tokens"});
        for (std::size_t k = 0; k < received.size(); ++k)
          ASSERT_EQ(received[k], static_cast<float>(k / 6));
      }
    });
  }
}

TEST(Errors, SplitsThatDoNotFitTheInputAreRefusedBeforeAnythingIsSubmitted) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(12), y(12);
    const auto refusal = [&](std::vector<std::size_t> splits) {
      return error_text<InvalidArgument>([&] {
        ctx.alltoall(TensorView(x.data(), {6, 2}), TensorView(y.data(), {6, 2}),
                     {.name = "tokens", .splits = std::move(splits)});
      });
    };
    EXPECT_THAT(refusal({4, 1}),
                HasSubstr("alltoall 'tokens': the splits 4 + 1 do not add up to the 6 rows of the "
                          "input [6, 2]"));
    EXPECT_THAT(refusal({4, 3}), HasSubstr("4 + 3 do not add up to the 6 rows"));
    EXPECT_THAT(refusal({7, std::size_t(0) - 1}), HasSubstr("do not add up"));
    EXPECT_THAT(refusal({1, 2, 3}), HasSubstr("3 splits were given for 2 ranks"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.alltoall(TensorView(x.data(), {6, 2}), TensorView(y.data(), {4, 3}));
                }),
                HasSubstr("first dimension only"));
    ctx.barrier();
  });
}

TEST(Errors, AnAlltoallOutputThatIsTooSmallIsReportedWhereItIs) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> input(6, static_cast<float>(ctx.rank()));
    std::vector<float> output(ctx.rank() == 1 ? 5 : 6, -1.0f);
    const auto exchange = [&] {
      ctx.alltoall(TensorView(input), TensorView(output), {.name = "tokens"});
    };
    if (ctx.rank() == 1) {
      EXPECT_THAT(error_text<InvalidArgument>(exchange),
                  HasSubstr("alltoall 'tokens': 6 rows come to rank 1, its output [5] has only 5"));
      EXPECT_EQ(output[4], -1.0f);
    } else {
      exchange();
      EXPECT_EQ(output, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    }
    ctx.barrier();
  });
}

TEST(Errors, AMissingRankIsNamedWhenTheTimeoutPasses) {
  for (int missing : {0, 1, 2}) {
    RunOptions options;
    options.environment = {"HORO_TIMEOUT=300ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
    std::mutex mutex;
    std::vector<std::string> texts;
    try {
      run_ranks(
          3,
          [&](Context& ctx) {
            std::vector<float> x(4);
            if (ctx.rank() == missing) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1200));
              return;
            }
            const std::string text = error_text<CommunicationError>(
                [&] { ctx.allreduce(TensorView(x), {.name = "lonely"}); });
            const std::scoped_lock lock(mutex);
            texts.push_back(text);
          },
          options);
    } catch (const CommunicationError&) {
    }
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_THAT(texts[0], HasSubstr("'lonely'"));
    EXPECT_THAT(texts[0], HasSubstr("rank " + std::to_string(missing) + " "));
  }
}

TEST(Errors, ARankThatEndsEarlyIsNamed) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(4);
    ctx.allreduce(TensorView(x), {.name = "first"});
    if (ctx.rank() == 1) return;
    EXPECT_THAT(
        error_text<ShutdownError>([&] { ctx.allreduce(TensorView(x), {.name = "second"}); }),
        HasSubstr("'second' cannot complete: rank 1 (host thread-node-0) has shut down"));
  });
}

TEST(Errors, ARankThatThrowsEndsTheOthersWaits) {
  for (int failing : {0, 2}) {
    try {
      run_ranks(3, [&](Context& ctx) {
        std::vector<float> x(4);
        ctx.allreduce(TensorView(x), {.name = "first"});
        if (ctx.rank() == failing) throw std::runtime_error("disk full");
        EXPECT_THAT(error_text<CommunicationError>(
                        [&] { ctx.allreduce(TensorView(x), {.name = "second"}); }),
                    HasSubstr("rank " + std::to_string(failing) + " (host thread-node-0) failed"));
        // Later operations end at once, with the same error.
        EXPECT_THAT(error_text<CommunicationError>(
                        [&] { ctx.allreduce(TensorView(x), {.name = "third"}); }),
                    HasSubstr("failed"));
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "rank " + std::to_string(failing) + ": disk full");
    }
  }
}

TEST(Errors, ARankThatThrowsEndsTheOthersCollectives) {
  try {
    run_ranks(4, [](Context& ctx) {
      std::vector<float> a(100000, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}};
      GradientSync sync(ctx, gradients);
      sync.exchange();
      if (ctx.rank() == 3) throw std::runtime_error("diverged");
      sync.ready(0);
      EXPECT_THAT(error_text<CommunicationError>([&] { sync.wait(); }),
                  HasSubstr("rank 3 (host thread-node-0) failed"));
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 3: diverged");
  }
}

TEST(Errors, ARankThatLeavesInTheMiddleOfAStepIsNamed) {
  const auto run = [] {
    run_ranks(3, [](Context& ctx) {
      std::vector<float> a(100000, 1.0f);
      std::vector<float> b(100000, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
      GradientSync sync(ctx, gradients, {.bucket_bytes = 1});
      sync.exchange();
      sync.ready(1);
      if (ctx.rank() == 1) return;
      sync.ready(0);
      sync.wait();
    });
  };
  EXPECT_THAT(error_text<ShutdownError>(run),
              AllOf(HasSubstr("rank 1 (host thread-node-0)"), HasSubstr("left")));
}

TEST(Errors, ARankThatEndsItsPlanEarlyIsNamedWithItsStepsOnAllOfItsNode) {
  for (const bool handles_it : {true, false}) {
    std::mutex mutex;
    std::vector<std::string> texts;
    const auto train = [&](Context& ctx) {
      std::vector<float> a(10007, 1.0f), b(3, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
      GradientSync sync(ctx, gradients, {.name = "net", .bucket_bytes = 1});
      for (int step = 0; step < 7; ++step) sync.exchange();
      if (ctx.rank() == 1) return;
      try {
        sync.exchange();
      } catch (const ShutdownError& error) {
        {
          const std::scoped_lock lock(mutex);
          texts.emplace_back(error.what());
        }
        if (!handles_it) throw;
      }
    };
    if (handles_it)
      run_ranks(4, train);
    else
      EXPECT_THROW(run_ranks(4, train), ShutdownError);
    ASSERT_GE(texts.size(), handles_it ? 3u : 1u);
    for (const std::string& text : texts)
      EXPECT_THAT(text,
                  AllOf(HasSubstr("gradients 'net': rank 1 (host thread-node-0) has left after 7 "
                                  "steps, rank "),
                        HasSubstr(" exchanges one more; call GradientSync::join() where ranks")));
  }
}

TEST(Errors, ARankThatThrowsWhileItsPlanWaitsIsNamed) {
  // Rank 0's plan thread waits for rank 1, which waits for rank 0's metric: the failure must still
  // be heard at once.
  for (const char* per_node : {"HORO_RANKS_PER_NODE=0", "HORO_RANKS_PER_NODE=1"}) {
    RunOptions options;
    options.environment = {per_node};
    try {
      run_ranks(
          2,
          [](Context& ctx) {
            std::vector<float> a(100000, 1.0f);
            std::vector<float> b(100000, 1.0f);
            std::vector<float> metric(1);
            const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
            GradientSync sync(ctx, gradients, {.bucket_bytes = 1});
            if (ctx.rank() == 0) {
              sync.ready(1);
              std::this_thread::sleep_for(std::chrono::milliseconds(30));
              throw std::runtime_error("diverged");
            }
            EXPECT_THAT(error_text<CommunicationError>(
                            [&] { ctx.allreduce(TensorView(metric), {.name = "metric"}); }),
                        HasSubstr("rank 0 (host thread-node-0) failed"));
          },
          options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "rank 0: diverged");
    }
  }
}

TEST(Errors, ATimeoutBelowTheStallWarningStillNamesTheMissingRank) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=300ms", "HORO_STALL_WARNING=10s"};
  EXPECT_THROW(run_ranks(
                   3,
                   [](Context& ctx) {
                     std::vector<float> x(4);
                     if (ctx.rank() == 2) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(1000));
                       return;
                     }
                     EXPECT_THAT(error_text<CommunicationError>(
                                     [&] { ctx.allreduce(TensorView(x), {.name = "lonely"}); }),
                                 AllOf(HasSubstr("'lonely'"), HasSubstr("rank 2 ")));
                   },
                   options),
               CommunicationError);
}

TEST(Errors, LostMessagesEndInATimeout) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=200ms", "HORO_LOG_LEVEL=off"};
  options.drop_messages_of = 1;
  EXPECT_THROW(run_ranks(
                   2, [](Context& ctx) { ctx.barrier(); }, options),
               CommunicationError);
}

TEST(Errors, ShutdownTwiceAndUseAfterwards) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(4);
    ctx.allreduce(TensorView(x));
    ctx.shutdown();
    ctx.shutdown();
    EXPECT_THAT(error_text<ShutdownError>([&] { ctx.allreduce(TensorView(x)); }),
                HasSubstr("shut down"));
  });
}

}  // namespace
}  // namespace horo
