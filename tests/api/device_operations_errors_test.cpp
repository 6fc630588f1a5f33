// Errors of DeviceOperations, on the stand-in for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "horo/device_operations.h"
#include "horo/testing.h"
#include "tests/api/device_operations_rank.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using namespace device_operations_test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

TEST(DeviceOperations, MismatchFailsAllRanksAndNextOperationWorks) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> texts(5);
  run_ranks(3, [&](Context& ctx) {
    Rank rank(ctx, 6);
    DeviceOperations ops(ctx, rank.device());
    const auto& array = rank.tensor(0, 12);
    std::vector<float> host(12);
    const bool odd = ctx.rank() == 1;
    const auto note = [&](std::size_t which, const std::string& text) {
      const std::scoped_lock lock(mutex);
      texts[which].push_back(text);
    };
    const auto reduce = [&](TensorView tensor, ReduceOp op) {
      return error_text<MismatchError>(
          [&] { ops.allreduce(tensor, {.name = "x", .op = op, .stream = rank.native()}); });
    };
    note(0, reduce(odd ? TensorView(array.data(), Shape{3, 4}) : view(array), ReduceOp::kSum));
    note(1, reduce(odd ? TensorView(array.data(), DataType::kInt32, Shape{12}) : view(array),
                   ReduceOp::kSum));
    note(2, reduce(view(array), odd ? ReduceOp::kMax : ReduceOp::kSum));
    note(3, error_text<MismatchError>([&] {
           if (odd)
             ctx.allreduce(TensorView(host), {.name = "x", .op = ReduceOp::kSum});
           else
             ops.allreduce(view(array),
                           {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()});
         }));
    note(4, error_text<MismatchError>([&] {
           ops.broadcast_async(view(array),
                               {.name = "x", .root = odd ? 1 : 0, .stream = rank.native()})
               .wait_on(rank.native());
         }));
    ops.allreduce(view(array), {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()});
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(array.data()[i], sum_of(3, 0, i));
  });
  const char* const reasons[] = {
      "the shapes differ", "the element types differ", "the reduce operations differ",
      "one is in host memory, the other on a device", "the roots differ"};
  for (std::size_t which = 0; which < texts.size(); ++which) {
    ASSERT_EQ(texts[which].size(), 3u);
    EXPECT_THAT(texts[which][0], AllOf(HasSubstr("'x'"), HasSubstr("rank 1 "),
                                       HasSubstr("on a device"), HasSubstr(reasons[which])));
    for (const std::string& text : texts[which]) EXPECT_EQ(text, texts[which][0]);
  }
}

TEST(DeviceOperations, SmallOutputFailsOnlyItsRank) {
  run_ranks(3, [](Context& ctx) {
    Rank rank(ctx, 7);
    DeviceOperations ops(ctx, rank.device());
    const auto& input = rank.tensor(0, 6);
    const bool odd = ctx.rank() == 2;
    const DeviceArray<float> output(rank.device(), odd ? 16 : 18);
    const DeviceArray<float> small(rank.device(), odd ? 2 : 6);
    const auto gather = [&] {
      ops.allgather(rows(input, 2), rows(output, 2), {.name = "g", .stream = rank.native()});
    };
    const auto exchange = [&] {
      ops.alltoall(rows(input, 2), rows(small, 2), {.name = "a", .stream = rank.native()});
    };
    if (odd) {
      EXPECT_THAT(error_text<InvalidArgument>(gather),
                  AllOf(HasSubstr("allgather 'g'"), HasSubstr("9 rows in total")));
      EXPECT_THAT(error_text<InvalidArgument>(exchange), HasSubstr("rank 2 receives 3 rows"));
    } else {
      gather();
      exchange();
      EXPECT_EQ(output.data()[13], value(2, 0, 1));
      EXPECT_EQ(small.data()[4], value(2, 0, static_cast<std::size_t>(ctx.rank()) * 2));
    }
  });
}

TEST(DeviceOperations, RejectInvalidUse) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 8);
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { DeviceOperations ops(ctx, rank.device(), {.buffer_bytes = 100}); }),
                HasSubstr("buffer_bytes is 100"));
    EXPECT_THAT(error_text<MismatchError>([&] {
                  const std::size_t chunk = ctx.rank() == 1 ? 5000 : 6000;
                  DeviceOperations ops(ctx, rank.device(), {.chunk_bytes = chunk});
                }),
                AllOf(HasSubstr("rank 1 "), HasSubstr("chunk_bytes = 5000")));
    HostDevice little({.memory_bytes = ctx.rank() == 1 ? std::size_t{900} : SIZE_MAX});
    EXPECT_THAT(error_text<DeviceError>([&] { DeviceOperations ops(ctx, little); }),
                AllOf(HasSubstr("rank 1 "), HasSubstr("900")));

    DeviceOperations ops(ctx, rank.device());
    std::vector<float> host(3);
    const auto& array = rank.tensor(0, 3);
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ops.allreduce(TensorView(host), {.name = "x", .stream = rank.native()});
                }),
                HasSubstr("allreduce 'x': the input does not lie in memory of host stand-in"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ops.allgather(view(array), TensorView(host),
                                {.name = "x", .stream = rank.native()});
                }),
                HasSubstr("the output does not lie"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { ops.allreduce(view(array), {.name = "x"}); }),
                HasSubstr("stream is null"));
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { ops.allreduce(view(array), {.name = "x", .op = ReduceOp::kAdasum}); }),
                HasSubstr("Adasum"));
    ops.allreduce(view(array), {.name = "x", .op = ReduceOp::kMax, .stream = rank.native()});
    EXPECT_EQ(array.data()[1], std::max(value(0, 0, 1), value(1, 0, 1)));
  });
}

/// A device without free streams.
class SpentDevice : public HostDevice {
 public:
  std::unique_ptr<Stream> make_stream(Priority) override { throw DeviceError("no more streams"); }
};

// At most 255 objects exist at once.
TEST(DeviceOperations, FailedConstructionTakesNoNumber) {
  run_ranks(1, [](Context& ctx) {
    SpentDevice spent;
    for (int i = 0; i < 260; ++i)
      ASSERT_EQ(error_text<DeviceError>([&] { DeviceOperations ops(ctx, spent); }),
                "no more streams");
    Rank rank(ctx, 9);
    DeviceOperations ops(ctx, rank.device());
    const auto& array = rank.tensor(0, 3);
    ops.allreduce(view(array), {.name = "x", .stream = rank.native()});
  });
}

TEST(DeviceOperations, UnmatchedOperationEndsWithItsObjectOrJob) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 10);
    const auto& x = rank.tensor(0, 10);
    std::optional<DeviceOperations> ops(std::in_place, ctx, rank.device());
    std::optional<DeviceOperations> later(std::in_place, ctx, rank.device());
    if (ctx.rank() == 0) {
      const DeviceHandle handle =
          ops->allreduce_async(view(x), {.name = "x", .stream = rank.native()});
      EXPECT_FALSE(handle.is_done());
      ops.reset();
      EXPECT_TRUE(handle.is_done());
      EXPECT_THROW(handle.wait(), ShutdownError);
      EXPECT_THROW(handle.wait_on(rank.native()), ShutdownError);
    }
    ctx.barrier();
    DeviceHandle handle;
    if (ctx.rank() == 1)
      handle = later->allreduce_async(view(x), {.name = "y", .stream = rank.native()});
    ctx.shutdown();
    if (ctx.rank() == 1) {
      EXPECT_THROW(handle.wait(), ShutdownError);
    }
    EXPECT_THROW(later->allreduce(view(x), {.name = "z", .stream = rank.native()}), ShutdownError);
  });
}

TEST(DeviceOperations, FailedRankEndsWaitsOfOthers) {
  for (const bool on_host : {false, true}) {
    try {
      run_ranks(3, [&](Context& ctx) {
        Rank rank(ctx, 11);
        const auto& x = rank.tensor(0, 5000);
        DeviceOperations ops(ctx, rank.device());
        const auto reduce = [&] {
          return ops.allreduce_async(view(x), {.name = "x", .stream = rank.native()});
        };
        reduce().wait_on(rank.native());
        if (ctx.rank() == 1) throw std::runtime_error("disk full");
        EXPECT_THAT(error_text<CommunicationError>([&] {
                      const DeviceHandle handle = reduce();
                      on_host ? handle.wait() : handle.wait_on(rank.native());
                    }),
                    names_failed_rank(1));
        throw std::runtime_error("follows");
      });
      ADD_FAILURE();
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1: disk full"));
    }
  }
}

TEST(DeviceOperations, BusyDeviceTimesOut) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  std::mutex mutex;
  std::vector<std::string> texts;
  EXPECT_THROW(run_ranks(
                   2,
                   [&](Context& ctx) {
                     Rank rank(ctx, 12);
                     const auto &x = rank.tensor(0, 5000), &y = rank.tensor(1, 10);
                     DeviceOperations ops(ctx, rank.device());
                     if (ctx.rank() == 1)
                       device::submit(rank.stream(), [] { std::this_thread::sleep_for(2s); });
                     const DeviceHandle first =
                         ops.allreduce_async(view(x), {.name = "x", .stream = rank.native()});
                     const DeviceHandle second =
                         ops.allreduce_async(view(y), {.name = "y", .stream = rank.native()});
                     const std::string text = error_text<CommunicationError>([&] { first.wait(); });
                     EXPECT_EQ(error_text<CommunicationError>([&] { second.wait(); }), text);
                     EXPECT_EQ(error_text<CommunicationError>([&] {
                                 ops.allreduce(view(x), {.name = "x", .stream = rank.native()});
                               }),
                               text);
                     const std::scoped_lock lock(mutex);
                     texts.push_back(text);
                     throw CommunicationError(text);
                   },
                   options),
               CommunicationError);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("in allreduce '"), HasSubstr("HORO_TIMEOUT is 500 ms")));
}

}  // namespace
}  // namespace horo
