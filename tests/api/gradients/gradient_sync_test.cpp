#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

/// Gradients of odd sizes and known values.
class Model {
 public:
  explicit Model(int rank, std::size_t tensors = 23) : rank_(rank) {
    for (std::size_t t = 0; t < tensors; ++t) values_.emplace_back((t * t * 37 + t) % 5003);
  }
  std::vector<NamedTensor> gradients() {
    std::vector<NamedTensor> named;
    for (std::size_t t = 0; t < values_.size(); ++t)
      named.push_back({"layer" + std::to_string(t), TensorView(values_[t])});
    return named;
  }
  void compute(int step) {
    for (std::size_t t = 0; t < values_.size(); ++t)
      for (std::size_t i = 0; i < values_[t].size(); ++i) values_[t][i] = value(rank_, step, t, i);
  }
  void expect_sums(int ranks, int step) const {
    for (std::size_t t = 0; t < values_.size(); ++t)
      for (std::size_t i = 0; i < values_[t].size(); ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += value(r, step, t, i);
        ASSERT_EQ(values_[t][i], sum) << "tensor " << t << " index " << i << " step " << step;
      }
  }
  static float value(int rank, int step, std::size_t t, std::size_t i) {
    return static_cast<float>((rank + 1) * 7 + step * 3 + static_cast<int>(t) +
                              static_cast<int>(i % 61));
  }
  std::vector<std::vector<float>> values_;

 private:
  int rank_;
};

class GradientSyncRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToNine, GradientSyncRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 8, 9})));

TEST_P(GradientSyncRanks, ReducesGradientsReadyInAnyOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    Model model(ctx.rank());
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 16 * 1024});
    EXPECT_GT(sync.bucket_count(), 3u);
    std::mt19937 random(static_cast<unsigned>(ctx.rank()));
    std::vector<std::size_t> order(model.values_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int step = 0; step < 12; ++step) {
      model.compute(step);
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i : order) sync.ready(i);
      sync.wait();
      model.expect_sums(ctx.size(), step);
    }
  });
}

TEST(GradientSync, SendsNoControlMessagesAfterRegistration) {
  run_ranks(4, [](Context& ctx) {
    Model model(ctx.rank());
    GradientSync sync(ctx, model.gradients(), {.bucket_bytes = 4096});
    const std::uint64_t before = ctx.counters().control_messages_sent;
    for (int step = 0; step < 50; ++step) {
      for (std::size_t i = model.values_.size(); i-- > 0;) sync.ready(i);
      sync.wait();
    }
    EXPECT_EQ(ctx.counters().control_messages_sent, before);
    EXPECT_EQ(ctx.counters().collectives, 1 + 50 * sync.bucket_count());
  });
}

TEST(GradientSync, SupportsReadyFromSeveralThreads) {
  run_ranks(3, [](Context& ctx) {
    Model model(ctx.rank());
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 8192});
    for (int step = 0; step < 10; ++step) {
      model.compute(step);
      {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < 4; ++t)
          threads.emplace_back([&, t] {
            for (std::size_t i = t; i < model.values_.size(); i += 4) sync.ready(i);
          });
      }
      sync.wait();
      model.expect_sums(ctx.size(), step);
    }
  });
}

TEST(GradientSync, ExchangeMarksRemainingGradients) {
  run_ranks(2, [](Context& ctx) {
    Model model(ctx.rank());
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
    for (int step = 0; step < 5; ++step) {
      model.compute(step);
      if (ctx.rank() == 0) sync.ready(7);
      sync.exchange();
      model.expect_sums(ctx.size(), step);
    }
  });
}

TEST(GradientSync, MixesWithNamedOperationsInAnyOrder) {
  // Rank 0 marks all gradients before its metric, rank 1 afterwards. This must not deadlock.
  run_ranks(2, [](Context& ctx) {
    Model model(ctx.rank());
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 4096});
    for (int step = 0; step < 20; ++step) {
      model.compute(step);
      std::vector<float> metric(1, 1.0f);
      if (ctx.rank() == 1)
        ctx.allreduce(TensorView(metric), {.name = "metric", .op = ReduceOp::kSum});
      for (std::size_t i = model.values_.size(); i-- > 0;) sync.ready(i);
      if (ctx.rank() == 0)
        ctx.allreduce(TensorView(metric), {.name = "metric", .op = ReduceOp::kSum});
      sync.wait();
      EXPECT_EQ(metric[0], 2.0f);
      model.expect_sums(2, step);
    }
  });
}

TEST(GradientSync, PlansMayRunInDifferentOrderOnRanks) {
  run_ranks(2, [](Context& ctx) {
    Model generator(ctx.rank(), 9);
    Model critic(ctx.rank(), 12);
    GradientSync first(ctx, generator.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 4096});
    GradientSync second(ctx, critic.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 4096});
    for (int step = 0; step < 10; ++step) {
      generator.compute(step);
      critic.compute(step);
      GradientSync& a = ctx.rank() == 0 ? first : second;
      GradientSync& b = ctx.rank() == 0 ? second : first;
      const std::size_t a_count = ctx.rank() == 0 ? 9 : 12;
      for (std::size_t i = 0; i < a_count; ++i) a.ready(i);
      for (std::size_t i = 0; i < 21 - a_count; ++i) b.ready(i);
      first.wait();
      second.wait();
      generator.expect_sums(2, step);
      critic.expect_sums(2, step);
    }
  });
}

TEST(GradientSync, BitsDoNotDependOnPackingOnOneNode) {
  std::vector<std::vector<std::vector<float>>> results;
  for (std::size_t bucket_bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20}) {
    std::vector<std::vector<float>> result;
    run_ranks(4, [&](Context& ctx) {
      Model model(ctx.rank());
      GradientSync sync(ctx, model.gradients(), {.bucket_bytes = bucket_bytes});
      for (std::size_t t = 0; t < model.values_.size(); ++t)
        for (std::size_t i = 0; i < model.values_[t].size(); ++i)
          model.values_[t][i] = 1.0f / Model::value(ctx.rank(), 0, t, i);
      sync.exchange();
      if (ctx.rank() == 2) result = model.values_;
    });
    results.push_back(result);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(GradientSync, SupportsAllTypesInOnePlan) {
  run_ranks(3, [](Context& ctx) {
    const int rank = ctx.rank();
    std::vector<float> f(100, static_cast<float>(rank));
    std::vector<double> d(33, rank * 2.0);
    std::vector<BFloat16> b(65, BFloat16(static_cast<float>(rank)));
    std::vector<Float16> h(1, Float16(static_cast<float>(rank)));
    std::vector<std::int32_t> i(7, rank);
    const std::vector<NamedTensor> gradients = {{"f", TensorView(f)},
                                                {"d", TensorView(d)},
                                                {"b", TensorView(b)},
                                                {"h", TensorView(h)},
                                                {"i", TensorView(i)}};
    GradientSync sync(ctx, gradients);
    sync.exchange();
    EXPECT_EQ(f[99], 1.0f);
    EXPECT_EQ(d[32], 2.0);
    EXPECT_EQ(static_cast<float>(b[64]), 1.0f);
    EXPECT_EQ(static_cast<float>(h[0]), 1.0f);
    EXPECT_EQ(i[6], 1);
  });
}

template <typename Error, typename Function>
std::string text_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(GradientSync, NamesFirstGradientThatDiffers) {
  run_ranks(3, [](Context& ctx) {
    Model model(ctx.rank());
    const bool odd = ctx.rank() == 2;
    std::vector<NamedTensor> gradients = model.gradients();
    std::vector<float> other(model.values_[5].size());
    if (odd) gradients[4].tensor = other;
    const std::string text =
        text_of<MismatchError>([&] { GradientSync sync(ctx, gradients, {.name = "net"}); });
    EXPECT_THAT(text, HasSubstr("gradients 'net': tensor 'layer4': rank 0"));
    EXPECT_THAT(text, HasSubstr("rank 2"));
    gradients = model.gradients();
    if (odd) gradients.pop_back();
    EXPECT_THAT(text_of<MismatchError>([&] { GradientSync sync(ctx, gradients, {.name = "net"}); }),
                HasSubstr("only one of them registered 'layer22'"));
    EXPECT_THAT(text_of<MismatchError>([&] {
                  GradientSync sync(ctx, model.gradients(),
                                    {.op = odd ? ReduceOp::kSum : ReduceOp::kAverage});
                }),
                HasSubstr("reduce operations differ"));
    GradientSync works(ctx, model.gradients());
    works.exchange();
  });
}

TEST(GradientSync, ReportsMisuse) {
  run_ranks(1, [](Context& ctx) {
    Model model(ctx.rank(), 9);
    EXPECT_THAT(text_of<InvalidArgument>([&] { GradientSync sync(ctx, {}); }),
                HasSubstr("at least one"));
    std::vector<NamedTensor> doubled = model.gradients();
    doubled[3].name = doubled[2].name;
    EXPECT_THAT(text_of<InvalidArgument>([&] { GradientSync sync(ctx, doubled); }),
                HasSubstr("'layer2'"));
    GradientSync sync(ctx, model.gradients());
    EXPECT_THAT(text_of<InvalidArgument>([&] { sync.ready(9); }), HasSubstr("only 9 gradients"));
    sync.ready(3);
    EXPECT_THAT(text_of<InvalidArgument>([&] { sync.ready(3); }),
                HasSubstr("'layer3' was marked ready twice"));
    EXPECT_THAT(text_of<InvalidArgument>([&] { sync.wait(); }),
                HasSubstr("8 of 9 gradients: layer0, layer1"));
    sync.exchange();
    sync.exchange();
  });
}

TEST(GradientSync, ToleratesDelayedMessages) {
  RunOptions options;
  options.environment = {"HORO_RANKS_PER_NODE=2"};
  options.max_delay = std::chrono::microseconds(500);
  run_ranks(
      4,
      [](Context& ctx) {
        EXPECT_EQ(ctx.node_count(), 2);
        Model model(ctx.rank());
        GradientSync sync(ctx, model.gradients(),
                          {.op = ReduceOp::kSum, .bucket_bytes = 16 * 1024});
        for (int step = 0; step < 4; ++step) {
          model.compute(step);
          for (std::size_t i = model.values_.size(); i-- > 0;) sync.ready(i);
          sync.wait();
          model.expect_sums(4, step);
        }
      },
      options);
}

TEST(GradientSync, NarrowWireRoundsOnlyBetweenNodes) {
  for (const std::size_t ranks_per_node : {1, 2, 4}) {
    run_ranks(4,
              [&](Context& ctx) {
                std::vector<float> x(30011);
                for (std::size_t i = 0; i < x.size(); ++i)
                  x[i] = 1.0f / static_cast<float>(static_cast<std::size_t>(ctx.rank()) + i + 1);
                const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
                GradientSync sync(ctx, gradients,
                                  {.op = ReduceOp::kSum, .wire = DataType::kBFloat16});
                sync.exchange();
                for (std::size_t i = 0; i < x.size(); ++i) {
                  double exact = 0;
                  for (std::size_t r = 0; r < 4; ++r) exact += 1.0 / static_cast<double>(r + i + 1);
                  ASSERT_NEAR(x[i], exact, exact * (ctx.node_count() > 1 ? 0x1p-6 : 0x1p-21)) << i;
                }
                const WireReport report = sync.wire_report();
                EXPECT_EQ(report.bytes_saved, report.bytes_sent);
                EXPECT_EQ(report.bytes_sent > 0, ctx.node_count() > 1);
                EXPECT_EQ(report.relative_error() > 0, ctx.node_count() > 1);
              },
              {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(ranks_per_node)}});
  }
}

TEST(GradientSync, RejectsInvalidAndDifferentWireTypes) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(10);
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
    EXPECT_THROW(GradientSync(ctx, gradients, {.wire = DataType::kInt8}), InvalidArgument);
    GradientSyncOptions options;
    if (ctx.rank() == 1) options.wire = DataType::kFloat16;
    try {
      GradientSync sync(ctx, gradients, options);
      ADD_FAILURE() << "no error";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("wire type float16 on rank 1"));
    }
  });
}

TEST(GradientSync, AveragesWithEveryAlgorithm) {
  for (const char* algorithm : {"shared_memory", "ring", "hierarchical", "parameter_server"})
    run_ranks(3,
              [](Context& ctx) {
                Model model(ctx.rank());
                GradientSync sync(ctx, model.gradients(),
                                  {.op = ReduceOp::kSum, .bucket_bytes = 20000});
                for (int step = 0; step < 3; ++step) {
                  model.compute(step);
                  sync.exchange();
                  model.expect_sums(ctx.size(), step);
                }
              },
              {.environment = {std::string("HORO_ALGORITHM=") + algorithm, "HORO_SERVERS=2"}});
}

TEST(GradientSync, Float16AverageDoesNotOverflow) {
  for (const char* nodes : {"HORO_RANKS_PER_NODE=1", "HORO_RANKS_PER_NODE=2"})
    run_ranks(4,
              [](Context& ctx) {
                std::vector<float> x(30011, 60000.0f);
                const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
                GradientSync sync(ctx, gradients, {.wire = DataType::kFloat16});
                sync.exchange();
                for (const float y : x) ASSERT_EQ(y, 60000.0f);
              },
              {.environment = {nodes}});
}

}  // namespace
}  // namespace horo
