#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"
#include "tests/collectives/adasum/adasum_reference.h"

namespace horo {
namespace {

using collectives::gradient_value;
using ::testing::HasSubstr;
using testing::run_ranks;
using Gradients = std::vector<std::vector<float>>;

Gradients gradients_of(int rank) {
  Gradients gradients;
  for (const std::size_t count : {3, 1000, 1, 0, 517, 4099}) {
    auto& values = gradients.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] =
          static_cast<float>(gradient_value(static_cast<std::size_t>(rank), gradients.size(), i));
  }
  return gradients;
}

std::vector<NamedTensor> named(Gradients& gradients) {
  std::vector<NamedTensor> tensors;
  for (auto& values : gradients)
    tensors.push_back({"g" + std::to_string(tensors.size()), TensorView(values)});
  return tensors;
}

void expect_reference(const Gradients& found, int ranks) {
  for (std::size_t t = 0; t < found.size(); ++t) {
    std::vector<std::vector<double>> vectors;
    for (int r = 0; r < ranks; ++r) {
      const Gradients gradients = gradients_of(r);
      vectors.emplace_back(gradients[t].begin(), gradients[t].end());
    }
    const std::vector<double> expected = collectives::reference_adasum(vectors);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found[t][i], expected[i], 1e-6) << "tensor " << t << " element " << i;
  }
}

// Returns the result of all ranks; fails if the results differ. exchange(context, gradients) does
// the exchange.
template <typename Exchange>
Gradients result_of(int ranks, Exchange&& exchange, const testing::RunOptions& options = {}) {
  std::vector<Gradients> results(static_cast<std::size_t>(ranks));
  run_ranks(
      ranks,
      [&](Context& ctx) {
        Gradients gradients = gradients_of(ctx.rank());
        exchange(ctx, gradients);
        results[static_cast<std::size_t>(ctx.rank())] = gradients;
      },
      options);
  for (const Gradients& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

Gradients synced(int ranks, std::size_t bucket_bytes, const testing::RunOptions& options = {}) {
  return result_of(
      ranks,
      [&](Context& ctx, Gradients& gradients) {
        GradientSync sync(ctx, named(gradients),
                          {.op = ReduceOp::kAdasum, .bucket_bytes = bucket_bytes});
        sync.exchange();
      },
      options);
}

Gradients named_one_by_one(int ranks) {
  return result_of(ranks, [](Context& ctx, Gradients& gradients) {
    for (const NamedTensor& tensor : named(gradients))
      ctx.allreduce(tensor.tensor, {.name = tensor.name, .op = ReduceOp::kAdasum});
  });
}

Gradients named_all_at_once(int ranks) {
  return result_of(ranks, [](Context& ctx, Gradients& gradients) {
    std::vector<Handle> handles;
    for (const NamedTensor& tensor : named(gradients))
      handles.push_back(
          ctx.allreduce_async(tensor.tensor, {.name = tensor.name, .op = ReduceOp::kAdasum}));
    for (const Handle& handle : handles) handle.wait();
  });
}

TEST(AdasumApi, BitsDoNotDependOnBucketsOrFusion) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const Gradients whole = synced(ranks, 1 << 20);
    expect_reference(whole, ranks);
    for (const std::size_t bucket_bytes : {1, 4096, 20000})
      EXPECT_EQ(synced(ranks, bucket_bytes), whole) << ranks << " ranks";
    EXPECT_EQ(named_one_by_one(ranks), whole);
    EXPECT_EQ(named_all_at_once(ranks), whole);
  }
}

TEST(AdasumApi, BitsDoNotDependOnAlgorithmOrTiming) {
  for (const int ranks : {3, 4}) {
    const Gradients expected = synced(ranks, 4096);
    for (const char* algorithm : {"ring", "hierarchical", "parameter_server"})
      EXPECT_EQ(synced(ranks, 4096,
                       {.environment = {std::string("HORO_ALGORITHM=") + algorithm,
                                        "HORO_SERVERS=2", "HORO_RANKS_PER_NODE=2"},
                        .max_delay = std::chrono::microseconds(200)}),
                expected)
          << algorithm;
  }
}

TEST(AdasumApi, ArenaDoesNotChangeResult) {
  const Gradients expected = synced(3, 4096);
  const Gradients found = result_of(3, [](Context& ctx, Gradients& gradients) {
    const Arena arena = ctx.allocate(1 << 20);
    std::vector<std::pmr::vector<float>> mapped;
    std::vector<NamedTensor> tensors;
    for (const auto& values : gradients) {
      mapped.emplace_back(values.begin(), values.end(), arena.resource());
      tensors.push_back({"g" + std::to_string(tensors.size()),
                         TensorView(mapped.back().data(), Shape{values.size()})});
    }
    GradientSync sync(ctx, tensors, {.op = ReduceOp::kAdasum, .bucket_bytes = 4096});
    EXPECT_FALSE(sync.is_in_place(0));
    sync.exchange();
    for (std::size_t t = 0; t < mapped.size(); ++t)
      gradients[t].assign(mapped[t].begin(), mapped[t].end());
  });
  EXPECT_EQ(found, expected);
}

TEST(AdasumApi, DoesNotFuseWithOtherOperations) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> equal(5, 3.0f), summed(5, 3.0f);
    const Handle first =
        ctx.allreduce_async(TensorView(equal), {.name = "a", .op = ReduceOp::kAdasum});
    const Handle second =
        ctx.allreduce_async(TensorView(summed), {.name = "b", .op = ReduceOp::kSum});
    first.wait();
    second.wait();
    EXPECT_EQ(equal, std::vector<float>(5, 3.0f));
    EXPECT_EQ(summed, std::vector<float>(5, 6.0f));
  });
}

TEST(AdasumApi, RejectsUnsupportedUses) {
  run_ranks(2, [](Context& ctx) {
    std::vector<std::int32_t> integers(4);
    std::vector<float> floats(4), half(2);
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.allreduce(TensorView(integers), {.name = "i", .op = ReduceOp::kAdasum});
                }),
                HasSubstr("allreduce 'i': Adasum requires a floating-point type, not int32"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.reduce_scatter(TensorView(floats), TensorView(half),
                                     {.name = "r", .op = ReduceOp::kAdasum});
                }),
                HasSubstr("reduce_scatter 'r': Adasum is for allreduce only"));
    const std::vector<NamedTensor> mixed = {{"w", TensorView(floats)}, {"i", TensorView(integers)}};
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { GradientSync sync(ctx, mixed, {.op = ReduceOp::kAdasum}); }),
                HasSubstr("gradient 'i' is int32"));
    const std::vector<NamedTensor> one = {{"w", TensorView(floats)}};
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync sync(ctx, one,
                                    {.op = ReduceOp::kAdasum, .wire = DataType::kBFloat16});
                }),
                HasSubstr("leave wire unset"));
    ctx.barrier();  // the runtime remains usable
  });
}

TEST(AdasumApi, DifferentOperationsAreAMismatch) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(4);
    try {
      ctx.allreduce(TensorView(x),
                    {.name = "x", .op = ctx.rank() ? ReduceOp::kAdasum : ReduceOp::kAverage});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("allreduce (adasum) of float32 [4]"));
    }
  });
}

}  // namespace
}  // namespace horo
