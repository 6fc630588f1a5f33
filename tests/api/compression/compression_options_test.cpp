#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "horo/horo.h"
#include "horo/testing.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using Kind = Compression::Kind;

template <typename Error>
std::string error_for(Context& ctx, const GradientSyncOptions& options) {
  std::vector<float> x(1000);
  const std::vector<NamedTensor> gradients = {{"x", TensorView(x.data(), Shape{50, 20})}};
  try {
    GradientSync sync(ctx, gradients, options);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(CompressionOptions, RejectsBadValues) {
  run_ranks(1, [](Context& ctx) {
    const auto text = [&](const Compression& compression) {
      return error_for<InvalidArgument>(ctx, {.compression = compression});
    };
    EXPECT_EQ(text({.kind = Kind::kPowerSgd, .rank = 0}),
              "GradientSync: compression.rank is 0; it must be at least 1");
    for (const double rate : {0.5, -1.0, std::numeric_limits<double>::quiet_NaN()})
      EXPECT_THAT(text({.kind = Kind::kPowerSgd, .min_compression_rate = rate}),
                  HasSubstr("compression.min_compression_rate"));
    for (const double fraction : {0.0, -0.1, 1.01, std::numeric_limits<double>::quiet_NaN()})
      EXPECT_THAT(text({.kind = Kind::kTopK, .fraction = fraction}),
                  HasSubstr("it must be above 0 and at most 1"));
    EXPECT_THAT(text({.kind = static_cast<Kind>(17)}), HasSubstr("compression.kind is 17"));
    for (const Kind kind : {Kind::kPowerSgd, Kind::kTopK})
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct})
        EXPECT_THAT(error_for<InvalidArgument>(ctx, {.op = op, .compression = {.kind = kind}}),
                    HasSubstr("approximates averages and sums, not " + std::string(name_of(op))));
    EXPECT_THAT(error_for<InvalidArgument>(
                    ctx, {.wire = DataType::kBFloat16, .compression = {.kind = Kind::kTopK}}),
                HasSubstr("wire type bfloat16"));
    // Options of the other kind are ignored.
    std::vector<float> x(4);
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
    GradientSync(ctx, gradients, {.compression = {.kind = Kind::kTopK, .rank = 0}});
    GradientSync(ctx, gradients, {.compression = {.kind = Kind::kPowerSgd, .fraction = 0}});
  });
}

TEST(CompressionOptions, RejectsTensorsBeyondIndexRange) {
  run_ranks(1, [](Context& ctx) {
    float x = 0;  // never read
    const std::vector<NamedTensor> gradients = {
        {"huge", TensorView(&x, Shape{std::size_t{1} << 20, std::size_t{1} << 12})}};
    try {
      GradientSync sync(ctx, gradients, {.compression = {.kind = Kind::kTopK}});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("gradient 'huge' has 4294967296 values"));
    }
  });
}

TEST(CompressionOptions, NamesDifferenceBetweenRanks) {
  struct Case {
    Compression rank_0;
    Compression rank_1;
    std::string text;
  };
  const Compression power{.kind = Kind::kPowerSgd};
  const Compression top{.kind = Kind::kTopK};
  const auto with = [](Compression compression, auto change) {
    change(compression);
    return compression;
  };
  const std::vector<Case> cases = {
      {{},
       power,
       "compression.kind = none on rank 0 (host thread-node-0) and compression.kind = "
       "powersgd on rank 1"},
      {top, power, "compression.kind = topk"},
      {power, with(power, [](auto& c) { c.rank = 8; }), "compression.rank = 8 on rank 1"},
      {power, with(power, [](auto& c) { c.min_compression_rate = 2.5; }),
       "compression.min_compression_rate = 2.5"},
      {power, with(power, [](auto& c) { c.warm_start = false; }), "compression.warm_start = false"},
      {power, with(power, [](auto& c) { c.error_feedback = false; }),
       "compression.error_feedback = false"},
      {power, with(power, [](auto& c) { c.start_step = 9; }), "compression.start_step = 9"},
      {power, with(power, [](auto& c) { c.seed = 5; }), "compression.seed = 5"},
      {top, with(top, [](auto& c) { c.fraction = 0.25; }), "compression.fraction = 0.25"},
      {with(top, [](auto& c) { c.error_feedback = false; }), top,
       "compression.error_feedback = true"}};
  run_ranks(2, [&](Context& ctx) {
    for (const Case& each : cases)
      EXPECT_THAT(
          error_for<MismatchError>(
              ctx, {.name = "net", .compression = ctx.rank() == 0 ? each.rank_0 : each.rank_1}),
          ::testing::AllOf(HasSubstr("gradients 'net': "), HasSubstr(each.text)));
  });
}

}  // namespace
}  // namespace horo
