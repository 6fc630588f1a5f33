// GradientSync in memory of the stand-in for a GPU: streams are threads, which run late at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "horo/device/gpu.h"
#include "horo/device/host/host_device.h"
#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/device/device_model.h"
#include "tests/api/error_text.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using device::HostDevice;
using device::Priority;
using device::Stream;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

// The previous exchange may have ended the program's stream with an error that the plan reports
// later.
void try_backward(DeviceModel& model, GradientSync& sync, Stream& stream, int step) {
  try {
    backward(model, sync, stream, step);
  } catch (const DeviceError&) {
    std::this_thread::sleep_for(200ms);
  }
}

class DeviceGradientsRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceGradientsRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 8})));

TEST_P(DeviceGradientsRanks, StepsFollowStreamOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients(),
                      {.op = ReduceOp::kSum, .bucket_bytes = 40000, .chunk_bytes = 30000});
    EXPECT_GT(sync.bucket_count(), 2u);
    for (int step = 0; step < 6; ++step) {
      backward(model, sync, *stream, step);
      sync.wait_on(stream->native());
      model.expect_sums(*stream, ctx.size(), step);
    }
    stream->synchronize();
  });
}

TEST_P(DeviceGradientsRanks, AveragesWhenHostWaits) {
  run_ranks(GetParam(), [](Context& ctx) {
    if ((ctx.size() & (ctx.size() - 1)) != 0) return;  // the sums' divisor is exact
    DeviceModel model(ctx, 2);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients(), {.wire = DataType::kBFloat16, .chunk_bytes = 8192});
    for (int step = 0; step < 3; ++step) {
      backward(model, sync, *stream, step);
      sync.wait();
      model.expect_sums_now(ctx.size(), step, 1.0f / static_cast<float>(ctx.size()));
    }
  });
}

TEST(DeviceGradients, SendsMetricsInOwnType) {
  run_ranks(3, [](Context& ctx) {
    const auto device = std::make_shared<HostDevice>();
    const device::Memory memory = device->allocate(3 * 16);
    std::vector<NamedTensor> tensors;
    for (std::size_t t = 0; t < 3; ++t)
      tensors.push_back(
          {"t" + std::to_string(t),
           TensorView(reinterpret_cast<float*>(memory.data()) + 4 * t, Shape{4}, *device)});
    const auto stream = device->make_stream(Priority::kNormal);
    const auto sums = [&](const GradientSyncOptions& options) {
      GradientSync sync(ctx, tensors, options);
      for (std::size_t t = 3; t-- > 0;) {
        for (std::size_t i = 0; i < 4; ++i)
          static_cast<float*>(tensors[t].tensor.data())[i] = 1 + 0x1p-12f;
        sync.ready(t, stream->native());
      }
      sync.wait();
      std::vector<float> values;
      for (const NamedTensor& one : tensors)
        values.push_back(static_cast<const float*>(one.tensor.data())[1]);
      return values;
    };
    const float exact = 3 + 3 * 0x1p-12f;
    EXPECT_EQ(sums({.op = ReduceOp::kSum, .wire = DataType::kBFloat16, .metrics = {"t1"}}),
              (std::vector<float>{3, exact, 3}));
    EXPECT_EQ(sums({.op = ReduceOp::kSum, .metrics = {"t1"}}), std::vector<float>(3, exact));
    EXPECT_THAT(error_text<InvalidArgument>([&] { (void)sums({.metrics = {"loss"}}); }),
                HasSubstr("metrics names 'loss'"));
  });
}

// Equal nodes, unequal nodes, one rank per node.
TEST(DeviceGradients, UsesHierarchicalAlgorithmIfSet) {
  for (const auto& [ranks, per_node] : {std::pair(4, 2), std::pair(5, 2), std::pair(3, 1)}) {
    RunOptions options;
    options.environment = {"HORO_ALGORITHM=hierarchical",
                           "HORO_RANKS_PER_NODE=" + std::to_string(per_node)};
    const auto take_steps = [](Context& ctx) {
      DeviceModel model(ctx, 6);
      const auto stream = model.stream();
      GradientSync sync(ctx, model.gradients(),
                        {.op = ReduceOp::kSum, .bucket_bytes = 40000, .chunk_bytes = 30000});
      for (int step = 0; step < 6; ++step) {
        backward(model, sync, *stream, step);
        step % 3 == 0 ? (void)sync.wait() : sync.wait_on(stream->native());
        model.expect_sums(*stream, ctx.size(), step);
      }
      stream->synchronize();
      if (ctx.rank() == 1) throw std::runtime_error("disk full");
      EXPECT_THAT(error_text<CommunicationError>([&] {
                    backward(model, sync, *stream, 6);
                    sync.wait();
                  }),
                  HasSubstr("rank 1 "));
      throw std::runtime_error("follows");
    };
    try {
      run_ranks(ranks, take_steps, options);
      ADD_FAILURE();
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1: disk full"));
    }
  }
}

TEST(DeviceGradients, SupportsSeveralStreamsAndThreads) {
  run_ranks(3, [](Context& ctx) {
    DeviceModel model(ctx, 3);
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
    const auto optimizer = model.stream();
    for (int step = 0; step < 4; ++step) {
      std::vector<std::jthread> threads;
      for (std::size_t part = 0; part < 2; ++part)
        threads.emplace_back([&, part] {
          const auto stream = model.stream();
          for (std::size_t t = part; t < std::size(kSizes); t += 2) {
            model.compute(*stream, t, step);
            sync.ready(t, stream->native());
          }
          stream->synchronize();  // it ends with this thread
        });
      threads.clear();
      sync.wait_on(optimizer->native());
      model.expect_sums(*optimizer, ctx.size(), step);
      optimizer->synchronize();
    }
  });
}

TEST(DeviceGradients, PlansOfSetAndJobCoexist) {
  run_ranks(3, [](Context& ctx) {
    ProcessSet outer = ctx.new_process_set({0, 2});
    DeviceModel all_model(ctx, 4);
    const auto stream = all_model.stream();
    GradientSync all(ctx, all_model.gradients(), {.op = ReduceOp::kSum});
    std::optional<DeviceModel> outer_model;
    std::optional<GradientSync> of_outer;
    std::unique_ptr<Stream> outer_stream;
    if (outer.includes_me()) {
      outer_model.emplace(outer, 5);
      outer_stream = outer_model->stream();
      of_outer.emplace(outer, outer_model->gradients(), GradientSyncOptions{.op = ReduceOp::kSum});
    }
    for (int step = 0; step < 3; ++step) {
      if (of_outer) backward(*outer_model, *of_outer, *outer_stream, step);
      backward(all_model, all, *stream, step);
      all.wait_on(stream->native());
      all_model.expect_sums(*stream, 3, step);
      if (!of_outer) continue;
      of_outer->wait_on(outer_stream->native());
      outer_model->expect_sums(*outer_stream, 2, step);
    }
    stream->synchronize();
    if (outer_stream != nullptr) outer_stream->synchronize();
  });
}

TEST(DeviceGradients, RejectsInvalidUse) {
  run_ranks(2, [](Context& ctx) {
    DeviceModel model(ctx);
    const auto make = [&](const GradientSyncOptions& options) {
      return error_text<InvalidArgument>(
          [&] { GradientSync sync(ctx, model.gradients(), options); });
    };
    EXPECT_THAT(make({.op = ReduceOp::kAdasum}), HasSubstr("Adasum"));
    EXPECT_THAT(make({.wire = DataType::kInt8}),
                HasSubstr("wire type can be float16 or bfloat16, not int8"));
    EXPECT_THAT(make({.chunk_bytes = 0}), HasSubstr("chunk_bytes is 0"));
    EXPECT_THAT(make({.compression = {.kind = Compression::Kind::kTopK}}),
                HasSubstr("compression requires gradients in host memory"));
    EXPECT_THAT(make({.clip_norm = 1.0, .leave_as_reduced = true}),
                HasSubstr("leave_as_reduced cannot be combined with weighted, clip_norm"));
    std::vector<float> of_host(3);
    const auto refuse = [&](const std::vector<NamedTensor>& tensors) {
      return error_text<InvalidArgument>([&] { GradientSync sync(ctx, tensors); });
    };
    EXPECT_THAT(refuse({{"stray", TensorView(of_host.data(), Shape{3}, model.device())}}),
                HasSubstr("'stray' does not lie in memory of host stand-in"));
    EXPECT_THAT(refuse({model.gradients()[0], {"stray", TensorView(of_host)}}),
                AllOf(HasSubstr("'layer0' is in memory of host stand-in"),
                      HasSubstr("'stray' is in host memory")));

    const device::Memory memory = model.device().allocate(12);
    const std::vector<NamedTensor> counts = {
        {"counts",
         TensorView(reinterpret_cast<std::int32_t*>(memory.data()), Shape{3}, model.device())}};
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { GradientSync sync(ctx, counts, {.leave_as_reduced = true}); }),
                HasSubstr("'counts' is int32"));

    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients(), {});
    EXPECT_THAT(error_text<InvalidArgument>([&] { (void)sync.reduced(7); }),
                HasSubstr("reduced(7): only 7 gradients"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.ready(7, stream->native()); }),
                HasSubstr("ready(7): only 7 gradients"));
    sync.ready(0, stream->native());
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.ready(0, stream->native()); }),
                HasSubstr("'layer0' was marked ready twice"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.wait_on(stream->native()); }),
                AllOf(HasSubstr("wait() before ready() of 6 of 7 gradients"), HasSubstr("layer6")));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.ready(1); }),
                HasSubstr("ready() without a stream requires gradients in host memory"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.exchange(); }),
                HasSubstr("exchange() without a stream requires gradients in host memory"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.report(); }),
                HasSubstr("report() between ready() and wait()"));
    GradientSync of_host_memory(ctx, std::vector<NamedTensor>{{"h", TensorView(of_host)}});
    EXPECT_THAT(error_text<InvalidArgument>([&] { of_host_memory.wait_on(stream->native()); }),
                HasSubstr("wait_on() requires gradients in device memory"));
    EXPECT_EQ(of_host_memory.reduced(0).data, of_host.data());
  });
}

TEST(DeviceGradients, MismatchFailsAllRanks) {
  run_ranks(3, [](Context& ctx) {
    DeviceModel model(ctx);
    std::vector<NamedTensor> gradients = model.gradients();
    if (ctx.rank() == 2) gradients[3].name = "other";
    EXPECT_THAT(
        error_text<MismatchError>([&] { GradientSync sync(ctx, gradients, {.name = "net"}); }),
        AllOf(HasSubstr("'net'"), HasSubstr("rank 2"), HasSubstr("other")));
    GradientSyncOptions options{.name = "net"};
    if (ctx.rank() == 1) options.first_bucket_bytes = 1000;
    EXPECT_THAT(
        error_text<MismatchError>([&] { GradientSync sync(ctx, model.gradients(), options); }),
        AllOf(HasSubstr("first_bucket_bytes = 1000"), HasSubstr("rank 1")));
    GradientSyncOptions with_texts{.name = "net"};
    if (ctx.rank() == 0) with_texts.also_agreed = {"clip_norm = 1"};
    EXPECT_THAT(
        error_text<MismatchError>([&] { GradientSync sync(ctx, model.gradients(), with_texts); }),
        AllOf(HasSubstr("also_agreed has 1 texts"), HasSubstr("also_agreed has 0 texts")));
    GradientSync sync(ctx, model.gradients(), {.name = "net"});
  });
}

TEST(DeviceGradients, AllocationFailureOnOneRankFailsAllRanks) {
  const auto lack_memory = [](Context& ctx) {
    const auto device = std::make_shared<HostDevice>(
        HostDevice::Options{.memory_bytes = ctx.rank() == 1 ? std::size_t{1300} : SIZE_MAX});
    const device::Memory memory = device->allocate(400);
    auto* const values = reinterpret_cast<float*>(memory.data());
    const std::vector<NamedTensor> gradients = {{"x", TensorView(values, Shape{40}, *device)},
                                                {"y", TensorView(values + 44, Shape{40}, *device)}};
    EXPECT_THAT(
        error_text<DeviceError>([&] { GradientSync sync(ctx, gradients, {.name = "net"}); }),
        AllOf(HasSubstr("rank 1 "), HasSubstr("'net'"), HasSubstr("of 1300 bytes are free")));
    // The job continues.
    std::vector<float> x(3, 1);
    ctx.allreduce(TensorView(x), {.op = ReduceOp::kSum});
    EXPECT_EQ(x[2], 3);
  };
  run_ranks(3, lack_memory);
  RunOptions nodes;
  nodes.environment = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2"};
  run_ranks(3, lack_memory, nodes);
}

TEST(DeviceGradients, DestructorAbandonsUnfinishedStep) {
  run_ranks(2, [](Context& ctx) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    std::optional<GradientSync> sync(std::in_place, ctx, model.gradients(),
                                     GradientSyncOptions{.bucket_bytes = 100});
    if (ctx.rank() == 0) {
      for (std::size_t t = 2; t < std::size(kSizes); ++t) sync->ready(t, stream->native());
      sync.reset();
    }
    // The other rank still has its plan, and has not started the exchange.
    ctx.barrier();
  });
}

TEST(DeviceGradients, FailedRankEndsWaitsOfOthers) {
  for (const bool on_host : {false, true}) {
    try {
      run_ranks(3, [&](Context& ctx) {
        DeviceModel model(ctx);
        const auto stream = model.stream();
        GradientSync sync(ctx, model.gradients(), {});
        backward(model, sync, *stream, 0);
        sync.wait_on(stream->native());
        if (ctx.rank() == 1) throw std::runtime_error("disk full");
        EXPECT_THAT(error_text<CommunicationError>([&] {
                      // Work that was submitted to the device may fail later.
                      for (int step = 1; step < 1000; ++step) {
                        try_backward(model, sync, *stream, step);
                        on_host ? (void)sync.wait() : sync.wait_on(stream->native());
                      }
                    }),
                    names_failed_rank(1));
        EXPECT_THROW(sync.ready(0, stream->native()), CommunicationError);
        EXPECT_THROW(sync.wait(), CommunicationError);
        throw std::runtime_error("follows");
      });
      ADD_FAILURE();
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1: disk full"));
    }
  }
}

TEST(DeviceGradients, NamesGradientMissingOnOneRank) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=600ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  std::mutex mutex;
  std::vector<std::string> texts;
  EXPECT_THROW(run_ranks(
                   3,
                   [&](Context& ctx) {
                     DeviceModel model(ctx);
                     const auto stream = model.stream();
                     GradientSync sync(ctx, model.gradients(), {});
                     if (ctx.rank() == 2) {
                       sync.ready(6, stream->native());
                       std::this_thread::sleep_for(1500ms);
                       return;
                     }
                     backward(model, sync, *stream, 0);
                     const std::string text = error_text<CommunicationError>([&] { sync.wait(); });
                     const std::scoped_lock lock(mutex);
                     texts.push_back(text);
                     throw CommunicationError(text);
                   },
                   options),
               CommunicationError);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 2 "), HasSubstr("never marked"), HasSubstr("layer")));
}

TEST(OpenGpu, AllRanksReportFirstRankWithoutGpu) {
  if (device::count_gpus() > 0) GTEST_SKIP() << "this machine has a GPU";
  run_ranks(3, [](Context& ctx) {
    EXPECT_THAT(error_text<DeviceError>([&] { (void)open_gpu(ctx); }),
                AnyOf(HasSubstr("rank 0 (host thread-node-0) sees no GPU"),
                      HasSubstr("this build of horo has no CUDA")));
    ctx.barrier();
  });
}

}  // namespace
}  // namespace horo
