// Allreduces with a separate output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

template <typename T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(static_cast<float>((rank + 2) * 3 + static_cast<int>(i % 13)));
  return values;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
void expect_same_as_in_place(Context& ctx) {
  for (int o = 0; o < kReduceOpCount; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (!is_elementwise(op) && !is_floating(data_type_of<T>)) continue;
    for (const std::size_t count : {0ul, 1ul, 17ul, 5003ul}) {
      const std::vector<T> before = values_of<T>(ctx.rank(), count);
      std::vector<T> in_place = before, input = before, output(count), later(count);
      ctx.allreduce(TensorView(in_place), {.name = "in place", .op = op});
      ctx.allreduce(TensorView(input), TensorView(output), {.name = "apart", .op = op});
      ctx.allreduce_async(TensorView(input), TensorView(later), {.name = "later", .op = op}).wait();
      ASSERT_TRUE(same_bits(input, before)) << name_of(op) << " of " << count;
      ASSERT_TRUE(same_bits(output, in_place)) << name_of(op) << " of " << count;
      ASSERT_TRUE(same_bits(later, in_place)) << name_of(op) << " of " << count;
    }
  }
}

TEST(OutOfPlace, MatchesInPlaceAndKeepsInput) {
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [](Context& ctx) {
      expect_same_as_in_place<float>(ctx);
      expect_same_as_in_place<double>(ctx);
      expect_same_as_in_place<Float16>(ctx);
      expect_same_as_in_place<BFloat16>(ctx);
      expect_same_as_in_place<std::int8_t>(ctx);
      expect_same_as_in_place<std::uint8_t>(ctx);
      expect_same_as_in_place<std::int16_t>(ctx);
      expect_same_as_in_place<std::uint16_t>(ctx);
      expect_same_as_in_place<std::int32_t>(ctx);
      expect_same_as_in_place<std::int64_t>(ctx);
    });
}

TEST(OutOfPlace, SameMemoryIsInPlace) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x = {1.0f + static_cast<float>(ctx.rank()), 2.0f};
    ctx.allreduce(TensorView(x), TensorView(x), {.op = ReduceOp::kSum});
    EXPECT_EQ(x, (std::vector<float>{6.0f, 6.0f}));
  });
}

// Ranks may mix the two forms.
TEST(OutOfPlace, MayDifferBetweenRanks) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(7, static_cast<float>(ctx.rank())), y(7);
    if (ctx.rank() == 1)
      ctx.allreduce(TensorView(x), TensorView(y), {.name = "x", .op = ReduceOp::kSum});
    else
      ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    EXPECT_EQ((ctx.rank() == 1 ? y : x)[6], 3.0f);
  });
}

TEST(OutOfPlace, InputIsReusableAfterAsyncSubmission) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> input(1000);
    std::vector<std::vector<float>> outputs(20, std::vector<float>(input.size()));
    std::vector<Handle> handles;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      std::fill(input.begin(), input.end(), static_cast<float>(k * 10) + ctx.rank());
      handles.push_back(
          ctx.allreduce_async(TensorView(input), TensorView(outputs[k]), {.op = ReduceOp::kSum}));
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      handles[k].wait();
      EXPECT_EQ(outputs[k], std::vector<float>(input.size(), static_cast<float>(k * 30 + 3)));
    }
  });
}

TEST(OutOfPlace, SupportsScaleFactors) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(5, 4.0f), y(5);
    ctx.allreduce(TensorView(x), TensorView(y),
                  {.op = ReduceOp::kSum, .prescale = 0.25, .postscale = -3});
    EXPECT_EQ(y[4], -6.0f);
    EXPECT_EQ(x[4], 4.0f);
  });
}

TEST(OutOfPlace, RejectsOverlapAndMismatchBeforeCopy) {
  run_ranks(2, [](Context& ctx) {
    const std::vector<float> before = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::vector<float> x = before;
    std::vector<double> d(5);
    const auto error_for = [&](const TensorView& input, const TensorView& output) {
      const std::string blocking =
          error_text<InvalidArgument>([&] { ctx.allreduce(input, output, {.name = "x"}); });
      EXPECT_EQ(error_text<InvalidArgument>(
                    [&] { (void)ctx.allreduce_async(input, output, {.name = "x"}); }),
                blocking);
      EXPECT_EQ(x, before);
      return blocking;
    };
    if (ctx.rank() == 0) {  // on this rank only: the other rank receives nothing
      float* const at = x.data();
      const char* const overlap =
          "allreduce 'x': input and output overlap; pass the same memory for both, or memory that "
          "does not overlap";
      EXPECT_THAT(error_for(TensorView(at, {5}), TensorView(at + 4, {5})), HasSubstr(overlap));
      EXPECT_THAT(error_for(TensorView(at + 4, {5}), TensorView(at, {5})), HasSubstr(overlap));
      EXPECT_THAT(error_for(TensorView(at, {2, 3}), TensorView(at, {3, 2})),
                  HasSubstr("input [2, 3] and output [3, 2] must have the same shape"));
      EXPECT_THAT(error_for(TensorView(at, {5}), TensorView(d)),
                  HasSubstr("input is float32, output is float64"));
      EXPECT_THAT(error_for(TensorView(at, {5}), TensorView(nullptr, DataType::kFloat32, {5})),
                  HasSubstr("the output has no memory"));
      EXPECT_THAT(error_for(TensorView(nullptr, DataType::kFloat32, {5}), TensorView(at, {5})),
                  HasSubstr("the input has no memory"));
      EXPECT_THAT(error_text<InvalidArgument>([&] {
                    ctx.allreduce(TensorView(at, {5}), TensorView(at + 5, {5}),
                                  {.name = "x", .prescale = 1e300});
                  }),
                  HasSubstr("prescale"));
      EXPECT_EQ(x, before);
    }
    // Next to each other they do not overlap.
    ctx.allreduce(TensorView(x.data() + 5, {5}), TensorView(x.data(), {5}),
                  {.name = "x", .op = ReduceOp::kSum});
    EXPECT_EQ(x, (std::vector<float>{10, 12, 14, 16, 18, 5, 6, 7, 8, 9}));
  });
}

TEST(OutOfPlace, RejectsPendingNameBeforeCopy) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> a(7, 1.0f), b(7, 2.0f), input(7, 3.0f);
    const std::vector<float> before = {0, 1, 2, 3, 4, 5, 6};
    std::vector<float> output = before;
    const std::vector<NamedTensor> group = {{"a", TensorView(a)}, {"b", TensorView(b)}};
    const Handle earlier =
        ctx.rank() == 0 ? ctx.allreduce_group_async(group, {.op = ReduceOp::kSum}) : Handle();
    if (ctx.rank() == 0)
      for (const char* name : {"a", "b"}) {
        EXPECT_THAT(error_text<InvalidArgument>([&] {
                      ctx.allreduce(TensorView(input), TensorView(output), {.name = name});
                    }),
                    HasSubstr("already pending"));
        EXPECT_THAT(error_text<InvalidArgument>([&] {
                      (void)ctx.allreduce_async(TensorView(input), TensorView(output),
                                                {.name = name});
                    }),
                    HasSubstr("already pending"));
        EXPECT_EQ(output, before);
      }
    ctx.barrier();
    ctx.rank() == 0 ? earlier.wait() : ctx.allreduce_group(group, {.op = ReduceOp::kSum});
    EXPECT_EQ(b[6], 6.0f);
    ctx.allreduce(TensorView(input), TensorView(output), {.name = "b", .op = ReduceOp::kSum});
    EXPECT_EQ(output[6], 9.0f);
  });
}

TEST(OutOfPlace, CopiesNothingAfterShutdown) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> input(3, 3.0f), output(3, 1.0f);
    ctx.shutdown();
    EXPECT_THROW(ctx.allreduce(TensorView(input), TensorView(output)), ShutdownError);
    EXPECT_EQ(output[0], 1.0f);
  });
}

}  // namespace
}  // namespace horo
