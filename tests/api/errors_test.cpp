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

TEST(Errors, ShapeMismatchFailsAllRanksAndNextCollectiveWorks) {
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

TEST(Errors, ComparesEveryField) {
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

TEST(Errors, ChangedShapeOfCachedNameIsAMismatch) {
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

TEST(Errors, RejectsPendingName) {
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

TEST(Errors, RejectsBadArgumentsBeforeSubmission) {
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

TEST(Errors, WrongAllgatherOutputFailsOnlyItsRank) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> input(3, static_cast<float>(ctx.rank()));
    std::vector<float> output(ctx.rank() == 0 ? 6 : 5);
    if (ctx.rank() == 0) {
      ctx.allgather(TensorView(input), TensorView(output), {.name = "g"});
      EXPECT_EQ(output[5], 1.0f);
    } else {
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { ctx.allgather(TensorView(input), TensorView(output), {.name = "g"}); }),
                  HasSubstr("6 rows in total"));
    }
    ctx.barrier();
  });
}

TEST(Errors, AlltoallMismatchFailsAllRanksAndNextOneWorks) {
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

TEST(Errors, RejectsSplitsThatDoNotMatchInput) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(12), y(12);
    const auto error_for = [&](std::vector<std::size_t> splits) {
      return error_text<InvalidArgument>([&] {
        ctx.alltoall(TensorView(x.data(), {6, 2}), TensorView(y.data(), {6, 2}),
                     {.name = "tokens", .splits = std::move(splits)});
      });
    };
    EXPECT_THAT(error_for({4, 1}),
                HasSubstr("alltoall 'tokens': the splits 4 + 1 do not add up to the 6 rows of the "
                          "input [6, 2]"));
    EXPECT_THAT(error_for({4, 3}), HasSubstr("4 + 3 do not add up to the 6 rows"));
    EXPECT_THAT(error_for({7, std::size_t(0) - 1}), HasSubstr("do not add up"));
    EXPECT_THAT(error_for({1, 2, 3}), HasSubstr("3 splits were given for 2 ranks"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.alltoall(TensorView(x.data(), {6, 2}), TensorView(y.data(), {4, 3}));
                }),
                HasSubstr("first dimension only"));
    ctx.barrier();
  });
}

TEST(Errors, SmallAlltoallOutputFailsOnlyItsRank) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> input(6, static_cast<float>(ctx.rank()));
    std::vector<float> output(ctx.rank() == 1 ? 5 : 6, -1.0f);
    const auto exchange = [&] {
      ctx.alltoall(TensorView(input), TensorView(output), {.name = "tokens"});
    };
    if (ctx.rank() == 1) {
      EXPECT_THAT(
          error_text<InvalidArgument>(exchange),
          HasSubstr("alltoall 'tokens': rank 1 receives 6 rows, but its output [5] has only 5"));
      EXPECT_EQ(output[4], -1.0f);
    } else {
      exchange();
      EXPECT_EQ(output, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    }
    ctx.barrier();
  });
}

TEST(Errors, ShutdownMayRepeatAndLaterUseThrows) {
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
