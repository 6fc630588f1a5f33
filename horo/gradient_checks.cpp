#include "horo/gradient_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "horo/base/error.h"
#include "horo/coordinator/compression_settings.h"

namespace horo {
namespace {

void check_names(std::span<const NamedTensor> gradients) {
  HORO_CHECK(!gradients.empty(), "GradientSync needs at least one gradient");
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& gradient : gradients) {
    HORO_CHECK(!gradient.name.empty(), "GradientSync: every gradient needs a name");
    HORO_CHECK(names.insert(gradient.name).second,
               fmt::format("GradientSync: two gradients are called '{}'", gradient.name));
    HORO_CHECK(gradient.tensor.data() != nullptr || gradient.tensor.count() == 0,
               fmt::format("GradientSync: gradient '{}' has no memory", gradient.name));
  }
}

void check_floating(std::span<const NamedTensor> gradients, std::string_view what) {
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(is_floating(gradient.tensor.type()),
               fmt::format("GradientSync: {} is for floating point; gradient '{}' is {}", what,
                           gradient.name, name_of(gradient.tensor.type())));
}

void check_adasum(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  if (options.op != ReduceOp::kAdasum) return;
  check_floating(gradients, "Adasum");
  HORO_CHECK(!options.wire,
             "GradientSync: with Adasum gradients travel as their own type; leave wire unset");
}

void check_op(const GradientSyncOptions& options, std::string_view option) {
  HORO_CHECK(options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum ||
                 options.op == ReduceOp::kAdasum,
             fmt::format("GradientSync: {} goes with average, sum or adasum, not with {}", option,
                         name_of(options.op)));
}

void check_step_options(std::span<const NamedTensor> gradients,
                        const GradientSyncOptions& options) {
  HORO_CHECK(options.backward_passes_per_step > 0,
             "GradientSync: backward_passes_per_step is 0; a step has at least one pass");
  HORO_CHECK(!options.reorder || options.compression.kind == Compression::Kind::kNone,
             "GradientSync: reorder does not go with compression; choose one");
  if (options.find_unused) check_op(options, "find_unused");
  if (options.check_finite) check_op(options, "check_finite");
  if (options.weighted) {
    HORO_CHECK(
        options.op == ReduceOp::kAverage,
        fmt::format("GradientSync: weighted goes with average, not with {}", name_of(options.op)));
    check_floating(gradients, "weighted");
  }
  if (options.clip_norm) {
    check_op(options, "clip_norm");
    HORO_CHECK(*options.clip_norm > 0 && std::isfinite(*options.clip_norm),
               fmt::format("GradientSync: clip_norm is {}; it must be finite and above 0",
                           *options.clip_norm));
  }
  for (const std::string& metric : options.metrics)
    HORO_CHECK(std::ranges::find(gradients, metric, &NamedTensor::name) != gradients.end(),
               fmt::format("GradientSync: metrics names '{}', which is not registered", metric));
}

void check_wire(std::optional<DataType> wire, std::string_view what) {
  HORO_CHECK(
      !wire || *wire == DataType::kFloat16 || *wire == DataType::kBFloat16,
      fmt::format("GradientSync: {} can be float16 or bfloat16, not {}", what, name_of(*wire)));
}

void check_tune_wire(const GradientSyncOptions& options) {
  if (!options.tune_wire) return;
  check_wire(options.tune_wire, "tune_wire");
  HORO_CHECK(!options.wire, "GradientSync: wire and tune_wire are both set; choose one");
  HORO_CHECK(options.op != ReduceOp::kAdasum,
             "GradientSync: tune_wire does not go with Adasum; leave it unset");
  HORO_CHECK(options.compression.kind != Compression::Kind::kTopK,
             "GradientSync: tune_wire does not go with top-k; leave it unset");
}

}  // namespace

void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  check_names(gradients);
  check_wire(options.wire, "the wire type");
  check_tune_wire(options);
  check_adasum(gradients, options);
  coordinator::check_compression(options.compression, options.op, options.wire, gradients);
  check_step_options(gradients, options);
}

// backward_passes_per_step may differ: it is each rank's own business how it comes by a step.
std::vector<std::string> describe_step_options(const GradientSyncOptions& options) {
  return {options.first_bucket_bytes
              ? fmt::format("first_bucket_bytes = {}", *options.first_bucket_bytes)
              : "first_bucket_bytes unset",
          fmt::format("reorder = {}", options.reorder),
          fmt::format("autotune = {}", options.autotune.value_or(false)),
          options.tune_wire ? fmt::format("tune_wire = {}", name_of(*options.tune_wire))
                            : "tune_wire unset",
          fmt::format("find_unused = {}", options.find_unused),
          fmt::format("weighted = {}", options.weighted),
          options.clip_norm ? fmt::format("clip_norm = {}", *options.clip_norm) : "clip_norm unset",
          fmt::format("check_finite = {}", options.check_finite),
          fmt::format("metrics = [{}]", fmt::join(options.metrics, ", "))};
}

}  // namespace horo
