// Errors of named operations on tensors of the stand-in for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "horo/testing.h"
#include "tests/api/device/device_operations_rank.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using namespace device_operations_test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

TEST(OperationsOnDevice, MessagesNeedAStreamOfTheirDevice) {
  run_ranks(1, [](Context& ctx) {
    Rank rank(ctx, 6);
    const auto& array = rank.tensor(0, 12);
    std::vector<float> host(12);
    const auto text_of = [&](bool is_send, TensorView tensor, void* stream) {
      return error_text<InvalidArgument>([&] {
        if (is_send)
          ctx.send(tensor, {.name = "x", .to = 0, .stream = stream});
        else
          ctx.recv(tensor, {.name = "x", .from = 0, .stream = stream});
      });
    };
    for (const bool is_send : {true, false}) {
      const char* const call = is_send ? "send 'x': " : "recv 'x': ";
      EXPECT_THAT(text_of(is_send, view(array), nullptr), HasSubstr(call));
      EXPECT_THAT(
          text_of(is_send, TensorView(host), rank.native()),
          AllOf(HasSubstr(call), HasSubstr("options.stream is set, but the tensor is in host "
                                           "memory; leave it null")));
      EXPECT_THAT(
          text_of(is_send, TensorView(host.data(), Shape{12}, rank.device()), rank.native()),
          AllOf(HasSubstr(call), HasSubstr("does not lie in memory of")));
    }
  });
}

// The ranks agree on the mismatch before values are sent.
TEST(OperationsOnDevice, MessagesThatDifferFailOnBothRanks) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 6);
    const auto& array = rank.tensor(0, ctx.rank() == 0 ? 3000 : 3001);
    EXPECT_THAT(error_text<MismatchError>([&] {
                  if (ctx.rank() == 0)
                    ctx.send(view(array), {.name = "x", .to = 1, .stream = rank.native()});
                  else
                    ctx.recv(view(array), {.name = "x", .from = 0, .stream = rank.native()});
                }),
                HasSubstr("3001"));
    ctx.barrier();
  });
}

TEST(OperationsOnDevice, MismatchFailsAllRanksAndNextOperationWorks) {
  std::mutex mutex;
  std::vector<std::vector<std::string>> texts(5);
  run_ranks(3, [&](Context& ctx) {
    Rank rank(ctx, 6);
    const auto& array = rank.tensor(0, 12);
    std::vector<float> host(12);
    const bool odd = ctx.rank() == 1;
    const auto note = [&](std::size_t which, const std::string& text) {
      const std::scoped_lock lock(mutex);
      texts[which].push_back(text);
    };
    const auto reduce = [&](TensorView tensor, ReduceOp op) {
      return error_text<MismatchError>(
          [&] { ctx.allreduce(tensor, {.name = "x", .op = op, .stream = rank.native()}); });
    };
    note(0, reduce(odd ? array.view({3, 4}) : view(array), ReduceOp::kSum));
    note(1, reduce(odd ? TensorView(array.data(), DataType::kInt32, Shape{12}, rank.device())
                       : view(array),
                   ReduceOp::kSum));
    note(2, reduce(view(array), odd ? ReduceOp::kMax : ReduceOp::kSum));
    note(3, error_text<MismatchError>([&] {
           if (odd)
             ctx.allreduce(TensorView(host), {.name = "x", .op = ReduceOp::kSum});
           else
             ctx.allreduce(view(array),
                           {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()});
         }));
    note(4, error_text<MismatchError>([&] {
           ctx.broadcast_async(view(array),
                               {.name = "x", .root = odd ? 1 : 0, .stream = rank.native()})
               .wait_on(rank.native());
         }));
    ctx.allreduce(view(array), {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()});
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

TEST(OperationsOnDevice, SmallOutputFailsOnlyItsRank) {
  run_ranks(3, [](Context& ctx) {
    Rank rank(ctx, 7);
    const auto& input = rank.tensor(0, 6);
    const bool odd = ctx.rank() == 2;
    const DeviceArray<float> output(rank.device(), odd ? 16 : 18);
    const DeviceArray<float> small(rank.device(), odd ? 2 : 6);
    const auto gather = [&] {
      ctx.allgather(rows(input, 2), rows(output, 2), {.name = "g", .stream = rank.native()});
    };
    const auto exchange = [&] {
      ctx.alltoall(rows(input, 2), rows(small, 2), {.name = "a", .stream = rank.native()});
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

TEST(OperationsOnDevice, RejectInvalidUse) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 8);
    std::vector<float> host(3);
    const auto& array = rank.tensor(0, 3);
    const auto fails = [&](const auto& call) { return error_text<InvalidArgument>(call); };
    EXPECT_THAT(
        fails([&] { ctx.allreduce(TensorView(host), {.name = "x", .stream = rank.native()}); }),
        AllOf(HasSubstr("allreduce 'x'"), HasSubstr("stream is set"), HasSubstr("host memory")));
    EXPECT_THAT(
        fails([&] {
          ctx.allgather(view(array), TensorView(host), {.name = "x", .stream = rank.native()});
        }),
        AllOf(HasSubstr("one is in memory of host stand-in"), HasSubstr("one in host memory")));
    EXPECT_THAT(fails([&] {
                  ctx.allreduce(TensorView(host.data(), Shape{3}, rank.device()),
                                {.name = "x", .stream = rank.native()});
                }),
                HasSubstr("a tensor does not lie in memory of host stand-in"));
    EXPECT_THAT(fails([&] { ctx.allreduce(view(array), {.name = "x"}); }),
                HasSubstr("stream is null"));
    EXPECT_THAT(fails([&] { ctx.allreduce(view(array), {.name = "x", .op = ReduceOp::kAdasum}); }),
                HasSubstr("Adasum"));
    EXPECT_THAT(fails([&] {
                  ctx.reduce_scatter(rows(array, 3), rows(array, 3),
                                     {.name = "x", .prescale = 2, .stream = rank.native()});
                }),
                HasSubstr("reduce_scatter 'x'"));
    const Handle of_host = ctx.allreduce_async(TensorView(host), {.name = "h"});
    EXPECT_THAT(fails([&] { of_host.wait_on(rank.native()); }), HasSubstr("in host memory"));
    of_host.wait();
    ctx.allreduce(view(array), {.name = "x", .op = ReduceOp::kMax, .stream = rank.native()});
    EXPECT_EQ(array.data()[1], std::max(value(0, 0, 1), value(1, 0, 1)));
  });
}

TEST(OperationsOnDevice, AllocationFailureOnOneRankFailsAllRanks) {
  RunOptions options;
  options.environment = {"HORO_BUCKET_BYTES=4096"};
  const auto lack_memory = [](Context& ctx) {
    const auto little = std::make_shared<HostDevice>(
        HostDevice::Options{.memory_bytes = ctx.rank() == 1 ? std::size_t{900} : SIZE_MAX});
    const DeviceArray<float> x(*little, 3);
    const auto stream = little->make_stream(Priority::kNormal);
    // A later operation tries again.
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(error_text<DeviceError>(
                      [&] { ctx.allreduce(x.view(), {.name = "x", .stream = stream->native()}); }),
                  AllOf(HasSubstr("rank 1 "), HasSubstr("900")));
    ctx.barrier();
  };
  run_ranks(3, lack_memory, options);
}

/// A device without free streams after the first.
class SpentDevice : public HostDevice {
 public:
  std::unique_ptr<Stream> make_stream(Priority priority) override {
    if (std::exchange(is_spent_, true)) throw DeviceError("no more streams");
    return HostDevice::make_stream(priority);
  }

 private:
  bool is_spent_ = false;
};

TEST(OperationsOnDevice, MissingStreamFailsAllRanks) {
  run_ranks(2, [](Context& ctx) {
    const auto device =
        ctx.rank() == 0 ? std::make_shared<SpentDevice>() : std::make_shared<HostDevice>();
    const DeviceArray<float> x(*device, 3);
    const auto stream = device->make_stream(Priority::kNormal);
    EXPECT_THAT(error_text<DeviceError>(
                    [&] { ctx.allreduce(x.view(), {.name = "x", .stream = stream->native()}); }),
                AllOf(HasSubstr("rank 0 "), HasSubstr("no more streams")));
    ctx.barrier();
  });
}

TEST(OperationsOnDevice, UnmatchedOperationEndsWithJob) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 10);
    const auto& x = rank.tensor(0, 10);
    ctx.allreduce(view(x), {.name = "x", .stream = rank.native()});
    Handle handle;
    if (ctx.rank() == 1) {
      handle = ctx.allreduce_async(view(x), {.name = "y", .stream = rank.native()});
      EXPECT_FALSE(handle.is_done());
    }
    ctx.shutdown();
    if (ctx.rank() == 1) {
      EXPECT_TRUE(handle.is_done());
      EXPECT_THROW(handle.wait(), ShutdownError);
      EXPECT_THROW(handle.wait_on(rank.native()), ShutdownError);
    }
    EXPECT_THROW(ctx.allreduce(view(x), {.name = "z", .stream = rank.native()}), ShutdownError);
  });
}

TEST(OperationsOnDevice, FailedRankEndsWaitsOfOthers) {
  for (const bool on_host : {false, true}) {
    try {
      run_ranks(3, [&](Context& ctx) {
        Rank rank(ctx, 11);
        const auto& x = rank.tensor(0, 5000);
        const auto reduce = [&] {
          return ctx.allreduce_async(view(x), {.name = "x", .stream = rank.native()});
        };
        reduce().wait_on(rank.native());
        if (ctx.rank() == 1) throw std::runtime_error("disk full");
        EXPECT_THAT(error_text<CommunicationError>([&] {
                      const Handle handle = reduce();
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

TEST(OperationsOnDevice, BusyDeviceTimesOut) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  std::mutex mutex;
  std::vector<std::string> texts;
  EXPECT_THROW(run_ranks(
                   2,
                   [&](Context& ctx) {
                     Rank rank(ctx, 12);
                     const auto &x = rank.tensor(0, 5000), &y = rank.tensor(1, 10);
                     if (ctx.rank() == 1)
                       device::submit(rank.stream(), [] { std::this_thread::sleep_for(2s); });
                     const Handle first =
                         ctx.allreduce_async(view(x), {.name = "x", .stream = rank.native()});
                     const Handle second =
                         ctx.allreduce_async(view(y), {.name = "y", .stream = rank.native()});
                     const std::string text = error_text<CommunicationError>([&] { first.wait(); });
                     EXPECT_EQ(error_text<CommunicationError>([&] { second.wait(); }), text);
                     EXPECT_EQ(error_text<CommunicationError>([&] {
                                 ctx.allreduce(view(x), {.name = "x", .stream = rank.native()});
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
