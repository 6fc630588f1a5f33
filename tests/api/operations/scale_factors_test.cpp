// prescale and postscale of named reductions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/dynamic_jobs.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

struct Factors {
  double before, after;
};
constexpr Factors kFactors[] = {{0.0, 1.0},   {1.0, 0.0},        {-0.0, 2.0},  {-2.5, 1.0},
                                {1.0, -0.75}, {1e-30, 1.0},      {1.0, 1e-30}, {1.0 / 3, 0.7},
                                {0.1, 10.0},  {-1e-30, 1e30 / 7}};
constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum,     ReduceOp::kMin,
                             ReduceOp::kMax,     ReduceOp::kProduct, ReduceOp::kAdasum};

// Values of both signs, whose products are rounded.
template <typename T>
std::vector<T> input_of(int rank, std::size_t count, int salt = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int k = (rank + 1) * 31 + static_cast<int>(i * 7 % 101) + salt;
    values[i] = T((k % 3 == 0 ? -0.013f : 0.017f) * static_cast<float>(k));
  }
  return values;
}

// The documented arithmetic, with one rounding to T.
template <typename T>
void multiply(std::vector<T>& values, double factor) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (T& value : values) value = T(static_cast<Wide>(value) * static_cast<Wide>(factor));
}

template <typename T>
bool has_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Scales manually, with another name.
template <typename T>
std::vector<T> scaled_by_hand(Context& ctx, std::vector<T> values, ReduceOp op, Factors factors) {
  multiply(values, factors.before);
  ctx.allreduce(TensorView(values), {.name = "by hand", .op = op});
  multiply(values, factors.after);
  return values;
}

template <typename T>
void expect_manual_scaling(Context& ctx) {
  for (const ReduceOp op : kOps)
    for (const std::size_t count : {0ul, 1ul, 17ul, 2051ul})
      for (const Factors factors : kFactors) {
        std::vector<T> values = input_of<T>(ctx.rank(), count);
        const std::vector<T> expected = scaled_by_hand(ctx, values, op, factors);
        ctx.allreduce(
            TensorView(values),
            {.name = "scaled", .op = op, .prescale = factors.before, .postscale = factors.after});
        ASSERT_TRUE(has_same_bits(values, expected))
            << name_of(op) << " of " << count << " " << name_of(data_type_of<T>) << ", factors "
            << factors.before << " and " << factors.after;
      }
}

TEST(ScaleFactors, MatchManualScalingInEveryFloatingType) {
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [](Context& ctx) {
      expect_manual_scaling<float>(ctx);
      expect_manual_scaling<double>(ctx);
      expect_manual_scaling<Float16>(ctx);
      expect_manual_scaling<BFloat16>(ctx);
    });
}

TEST(ScaleFactors, ApplyToEveryTensorOfGroup) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          for (const Factors factors : kFactors)
            for (int round = 0; round < 2; ++round) {
              auto a = input_of<float>(ctx.rank(), 33);
              auto b = input_of<double>(ctx.rank(), 5, 3);
              auto c = input_of<BFloat16>(ctx.rank(), 101, 5);
              const auto by_hand_a = scaled_by_hand(ctx, a, ReduceOp::kSum, factors);
              const auto by_hand_b = scaled_by_hand(ctx, b, ReduceOp::kSum, factors);
              const auto by_hand_c = scaled_by_hand(ctx, c, ReduceOp::kSum, factors);
              const std::vector<NamedTensor> group = {
                  {"a", TensorView(a)}, {"b", TensorView(b)}, {"c", TensorView(c)}};
              ctx.allreduce_group(group, {.name = "group",
                                          .op = ReduceOp::kSum,
                                          .prescale = factors.before,
                                          .postscale = factors.after});
              ASSERT_TRUE(has_same_bits(a, by_hand_a));
              ASSERT_TRUE(has_same_bits(b, by_hand_b));
              ASSERT_TRUE(has_same_bits(c, by_hand_c));
            }
        },
        job.options);
}

// Cached names, in buckets of several tensors, with factors that change every two steps.
TEST(ScaleFactors, MayDifferPerTensorAndStep) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          constexpr std::size_t kTensors = 12;
          for (std::size_t step = 0; step < 8; ++step) {
            std::vector<std::vector<float>> tensors, expected;
            std::vector<Handle> handles;
            const auto factors_of = [&](std::size_t t) {
              return t % 4 == 0 ? Factors{1, 1} : kFactors[(t + step / 2) % std::size(kFactors)];
            };
            for (std::size_t t = 0; t < kTensors; ++t) {
              tensors.push_back(input_of<float>(ctx.rank(), t * 5 + 1, static_cast<int>(t + step)));
              expected.push_back(
                  scaled_by_hand(ctx, tensors.back(), ReduceOp::kAverage, factors_of(t)));
            }
            for (std::size_t t = 0; t < kTensors; ++t)
              handles.push_back(
                  ctx.allreduce_async(TensorView(tensors[t]), {.name = "t" + std::to_string(t),
                                                               .prescale = factors_of(t).before,
                                                               .postscale = factors_of(t).after}));
            for (const Handle& handle : handles) handle.wait();
            for (std::size_t t = 0; t < kTensors; ++t)
              ASSERT_TRUE(has_same_bits(tensors[t], expected[t]))
                  << "step " << step << " tensor " << t;
          }
        },
        job.options);
}

TEST(ScaleFactors, ApplyInProcessSet) {
  run_ranks(3, [](Context& ctx) {
    ProcessSet ends = ctx.new_process_set({0, 2});
    if (ctx.rank() != 1)
      for (int round = 0; round < 3; ++round) {
        std::vector<float> x(5, static_cast<float>(ctx.rank() + 1));
        ends.allreduce(TensorView(x), {.name = "x",
                                       .op = ReduceOp::kSum,
                                       .prescale = 0.5,
                                       .postscale = static_cast<double>(round)});
        EXPECT_EQ(x[4], 2.0f * static_cast<float>(round));
      }
    ctx.barrier();
  });
}

TEST(ScaleFactors, ReduceScatterMatchesSliceOfScaledAllreduce) {
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [](Context& ctx) {
      for (const Factors factors : kFactors) {
        const std::size_t rows = 13, shard = ctx.shard_rows(rows);
        std::vector<double> input = input_of<double>(ctx.rank(), rows * 3);
        const std::vector<double> before = input;
        std::vector<double> output(shard * 3), all = input;
        ctx.reduce_scatter(TensorView(input.data(), {rows, 3}),
                           TensorView(output.data(), {shard, 3}),
                           {.name = "shard",
                            .op = ReduceOp::kSum,
                            .prescale = factors.before,
                            .postscale = factors.after});
        EXPECT_EQ(input, before);
        ctx.allreduce(TensorView(all), {.name = "all",
                                        .op = ReduceOp::kSum,
                                        .prescale = factors.before,
                                        .postscale = factors.after});
        const auto n = static_cast<std::size_t>(ctx.size());
        const auto rank = static_cast<std::size_t>(ctx.rank());
        const std::size_t first = rank * (rows / n) + std::min(rank, rows % n);
        for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], all[first * 3 + i]);
      }
    });
}

TEST(ScaleFactors, IgnoreJoinedRank) {
  for (const DynamicJob& job : dynamic_jobs())
    if (job.ranks > 1)
      run_ranks(
          job.ranks,
          [](Context& ctx) {
            const int present = ctx.size() - 1;
            for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin,
                                      ReduceOp::kMax, ReduceOp::kProduct})
              for (int round = 0; round < 2 && ctx.rank() < present; ++round) {
                std::vector<double> x(3, -2.0 - ctx.rank());
                ctx.allreduce(
                    TensorView(x),
                    {.name = std::string(name_of(op)), .op = op, .prescale = -0.5, .postscale = 4});
                double sum = 0, product = 1;
                for (int r = 0; r < present; ++r) {
                  sum += 1 + 0.5 * r;
                  product *= 1 + 0.5 * r;
                }
                const double reduced = op == ReduceOp::kSum       ? sum
                                       : op == ReduceOp::kAverage ? sum / present
                                       : op == ReduceOp::kMin     ? 1
                                       : op == ReduceOp::kMax     ? 1 + 0.5 * (present - 1)
                                                                  : product;
                ASSERT_DOUBLE_EQ(x[2], 4 * reduced) << name_of(op);
              }
            (void)ctx.join();
          },
          job.options);
}

std::string mismatch_of(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const MismatchError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(ScaleFactors, MismatchFailsAllRanksAndNextOperationWorks) {
  for (const DynamicJob& job : dynamic_jobs())
    if (job.ranks > 1)
      run_ranks(
          job.ranks,
          [](Context& ctx) {
            const double own = ctx.rank() == 0 ? 1.0 : 0.25;
            std::vector<float> x(4);
            for (int round = 0; round < 2; ++round) {
              x.assign(4, 1.0f);
              EXPECT_THAT(
                  mismatch_of([&] {
                    ctx.allreduce(TensorView(x),
                                  {.name = "x", .op = ReduceOp::kSum, .prescale = own});
                  }),
                  AllOf(HasSubstr("tensor 'x': rank 0 (host thread-node-0) submitted allreduce "
                                  "(sum) of float32 [4], rank 1 (host thread-node-"),
                        HasSubstr(") submitted allreduce (sum, prescale 0.25 postscale 1) of "
                                  "float32 [4]: the scale factors differ, prescale 1 postscale 1 "
                                  "and prescale 0.25 postscale 1")));
              x.assign(4, 1.0f);
              ctx.allreduce(TensorView(x),
                            {.name = "x", .op = ReduceOp::kSum});  // cached next time
              EXPECT_EQ(x[3], static_cast<float>(ctx.size()));
              const std::vector<NamedTensor> group = {{"g", TensorView(x)}};
              EXPECT_THAT(
                  mismatch_of([&] { ctx.allreduce_group_async(group, {.postscale = own}).wait(); }),
                  HasSubstr("prescale 1 postscale 1 and prescale 1 postscale 0.25"));
              std::vector<float> shard(ctx.shard_rows(4));
              EXPECT_THAT(mismatch_of([&] {
                            ctx.reduce_scatter(TensorView(x), TensorView(shard),
                                               {.name = "s", .postscale = own});
                          }),
                          HasSubstr("the scale factors differ"));
              // The zeros compare equal, but their products do not have the same bits.
              EXPECT_THAT(mismatch_of([&] {
                            ctx.allreduce(TensorView(x),
                                          {.postscale = ctx.rank() == 0 ? 0.0 : -0.0});
                          }),
                          HasSubstr("postscale 0 and prescale 1 postscale -0"));
            }
          },
          job.options);
}

TEST(ScaleFactors, RejectIntegersAndNonFiniteFactors) {
  run_ranks(2, [](Context& ctx) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<float> x(3), shard(ctx.shard_rows(3));
    std::vector<std::int32_t> i(3, 1), shard_i(ctx.shard_rows(3));
    if (ctx.rank() == 0) {  // on this rank only: the other rank receives nothing
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { ctx.allreduce(TensorView(i), {.name = "n", .prescale = 0.5}); }),
                  HasSubstr("allreduce 'n': prescale is 0.5, but must be 1 for int32, which is not "
                            "a floating-point type"));
      const std::vector<NamedTensor> group = {{"x", TensorView(x)}, {"i", TensorView(i)}};
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { (void)ctx.allreduce_group_async(group, {.postscale = 0}); }),
                  HasSubstr("allreduce 'i': postscale is 0, but must be 1 for int32"));
      EXPECT_THAT(error_text<InvalidArgument>([&] {
                    ctx.reduce_scatter(TensorView(i), TensorView(shard_i), {.postscale = 2});
                  }),
                  HasSubstr("reduce_scatter '': postscale is 2, but must be 1 for int32"));
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { ctx.allreduce(TensorView(x), {.prescale = kInfinity}); }),
                  HasSubstr("prescale is inf; it must be a finite number"));
      EXPECT_THAT(error_text<InvalidArgument>([&] {
                    (void)ctx.allreduce_async(
                        TensorView(x), {.postscale = std::numeric_limits<double>::quiet_NaN()});
                  }),
                  HasSubstr("postscale is nan; it must be a finite number"));
      EXPECT_THAT(
          error_text<InvalidArgument>([&] { ctx.allreduce(TensorView(x), {.prescale = -1e39}); }),
          HasSubstr("prescale is -1e+39, which exceeds the range of float32, in which float32 is "
                    "multiplied"));
    }
    ctx.allreduce(TensorView(i), {.op = ReduceOp::kSum});
    EXPECT_EQ(i[2], 2);
    std::vector<double> d(3, 1e-300);
    ctx.allreduce(TensorView(d), {.op = ReduceOp::kSum, .prescale = 1e300});
    EXPECT_DOUBLE_EQ(d[0], 2.0);
  });
}

}  // namespace
}  // namespace horo
