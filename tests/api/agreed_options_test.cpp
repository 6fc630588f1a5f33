// Options that differ between ranks: each one is compared, and the error names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/device/device_model.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

/// One option, a change that causes a mismatch, and its name in the error.
template <typename Options>
struct Difference {
  std::string text;
  std::function<void(Options&)> change;
  Options base = {};
};

// A structured binding has one variable per field, so its line fails to compile after a field is
// added. Then add a row to the table below.
std::size_t count_fields(const GradientSyncOptions& options) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = options;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s), 19;
}
std::size_t count_fields(const Compression& options) {
  const auto& [a, b, c, d, e, f, g, h] = options;
  return std::tie(a, b, c, d, e, f, g, h), 8;
}
template <typename Options, typename Make>
void expect_every_difference_is_named(const std::vector<Difference<Options>>& differences,
                                      Make&& make) {
  for (const Difference<Options>& difference : differences)
    run_ranks(2, [&](Context& ctx) {
      Options options = difference.base;
      if (ctx.rank() == 1) difference.change(options);
      EXPECT_THAT(error_text<MismatchError>([&] { make(ctx, options); }),
                  AllOf(HasSubstr(difference.text), HasSubstr("rank 0"), HasSubstr("rank 1")))
          << difference.text;
      std::vector<float> x(3, 1.0f);
      ctx.allreduce(x, {.op = ReduceOp::kSum});  // the job continues
      EXPECT_EQ(x[2], 2.0f);
    });
}

void make_sync(Context& ctx, const GradientSyncOptions& options) {
  std::vector<float> a(40), b(50);
  const std::vector<NamedTensor> gradients = {{"a", {a.data(), {8, 5}}}, {"b", b}};
  GradientSync sync(ctx, gradients, options);
}

TEST(AgreedOptions, GradientSyncComparesEveryField) {
  using Options = GradientSyncOptions;
  const std::vector<Difference<Options>> differences = {
      {"the reduce operations differ", [](auto& o) { o.op = ReduceOp::kSum; }},
      {"bucket_bytes 1000 ", [](auto& o) { o.bucket_bytes = 1000; }},
      {"wire type bfloat16", [](auto& o) { o.wire = DataType::kBFloat16; }},
      {"compression.kind = topk", [](auto& o) { o.compression.kind = Compression::Kind::kTopK; }},
      {"first_bucket_bytes = 64", [](auto& o) { o.first_bucket_bytes = 64; }},
      {"reorder = true", [](auto& o) { o.reorder = true; }},
      {"autotune = true", [](auto& o) { o.autotune = true; }},
      {"tune_wire = float16", [](auto& o) { o.tune_wire = DataType::kFloat16; }},
      {"backward_passes_per_step = 2", [](auto& o) { o.backward_passes_per_step = 2; }},
      {"find_unused = true", [](auto& o) { o.find_unused = true; }},
      {"weighted = true", [](auto& o) { o.weighted = true; }},
      {"clip_norm = 0.5", [](auto& o) { o.clip_norm = 0.5; }},
      {"check_finite = true", [](auto& o) { o.check_finite = true; }},
      {"metrics = [a]", [](auto& o) { o.metrics = {"a"}; }},
      {"chunk_bytes = 4096", [](auto& o) { o.chunk_bytes = 4096; }},
      {"in_place_bytes is unset", [](auto& o) { o.in_place_bytes.reset(); }},
      {"also_agreed has 1 texts", [](auto& o) { o.also_agreed = {"learning_rate = 1"}; }}};
  // The ranks match plans by name. The next test has leave_as_reduced.
  EXPECT_EQ(differences.size() + 2, count_fields(Options{}));
  expect_every_difference_is_named(differences, make_sync);
}

TEST(AgreedOptions, CompressionComparesEveryField) {
  using Options = GradientSyncOptions;
  const Options power_sgd{.compression = {.kind = Compression::Kind::kPowerSgd}};
  const Options top_k{.compression = {.kind = Compression::Kind::kTopK}};
  const std::vector<Difference<Options>> differences = {
      {"compression.kind = powersgd", [&](auto& o) { o = power_sgd; }},
      {"error_feedback = false", [](auto& o) { o.compression.error_feedback = false; }, power_sgd},
      {"start_step = 7", [](auto& o) { o.compression.start_step = 7; }, top_k},
      {"compression.rank = 3", [](auto& o) { o.compression.rank = 3; }, power_sgd},
      {"min_compression_rate = 3", [](auto& o) { o.compression.min_compression_rate = 3; },
       power_sgd},
      {"warm_start = false", [](auto& o) { o.compression.warm_start = false; }, power_sgd},
      {"seed = 5", [](auto& o) { o.compression.seed = 5; }, power_sgd},
      {"fraction = 0.5", [](auto& o) { o.compression.fraction = 0.5; }, top_k}};
  EXPECT_EQ(differences.size(), count_fields(Compression{}));
  expect_every_difference_is_named(differences, make_sync);
}

TEST(AgreedOptions, GradientSyncOnDeviceComparesItsOptions) {
  using Options = GradientSyncOptions;
  const std::vector<Difference<Options>> differences = {
      {"the reduce operations differ", [](auto& o) { o.op = ReduceOp::kSum; }},
      {"bucket_bytes 1000 ", [](auto& o) { o.bucket_bytes = 1000; }},
      {"first_bucket_bytes = 64", [](auto& o) { o.first_bucket_bytes = 64; }},
      {"wire type bfloat16", [](auto& o) { o.wire = DataType::kBFloat16; }},
      {"metrics = [layer1]", [](auto& o) { o.metrics = {"layer1"}; }},
      {"chunk_bytes = 4096", [](auto& o) { o.chunk_bytes = 4096; }},
      {"in_place_bytes is unset", [](auto& o) { o.in_place_bytes.reset(); }},
      {"leave_as_reduced = true", [](auto& o) { o.leave_as_reduced = true; }},
      {"also_agreed has 1 texts", [](auto& o) { o.also_agreed = {"clip_norm = 1"}; }}};
  expect_every_difference_is_named(differences, [](Context& ctx, const Options& options) {
    DeviceModel model(ctx);
    GradientSync sync(ctx, model.gradients(), options);
  });
}

TEST(AgreedOptions, GradientSyncComparesKindOfMemory) {
  run_ranks(2, [](Context& ctx) {
    DeviceModel model(ctx);
    std::vector<std::vector<float>> memory;
    std::vector<NamedTensor> gradients = model.gradients();
    if (ctx.rank() == 1)
      for (NamedTensor& gradient : gradients)
        gradient.tensor = TensorView(memory.emplace_back(gradient.tensor.count()));
    EXPECT_THAT(error_text<MismatchError>([&] { GradientSync sync(ctx, gradients); }),
                AllOf(HasSubstr("in memory of the stand-in"), HasSubstr("in host memory")));
    ctx.barrier();
  });
}

}  // namespace
}  // namespace horo
