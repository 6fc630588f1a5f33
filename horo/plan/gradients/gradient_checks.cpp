#include "horo/plan/gradients/gradient_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "horo/base/error.h"
#include "horo/coordinator/allreduce_checks.h"
#include "horo/device/host/host_device.h"

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

void check_memory(std::span<const NamedTensor> gradients) {
  const std::string problem = find_overlap(gradients);
  HORO_CHECK(
      problem.empty(),
      fmt::format("GradientSync: gradients {}; register each piece of memory once", problem));
}

void check_one_memory(std::span<const NamedTensor> gradients) {
  const NamedTensor& first = gradients.front();
  for (const NamedTensor& gradient : gradients) {
    const device::Device* const device = gradient.tensor.device();
    HORO_CHECK(device == first.tensor.device(),
               fmt::format("GradientSync: gradient '{}' is in {}, but '{}' is in {}; make one "
                           "GradientSync for each memory",
                           first.name, describe_memory(first.tensor.device()), gradient.name,
                           describe_memory(device)));
    HORO_CHECK(
        device == nullptr || gradient.tensor.count() == 0 || device->owns(gradient.tensor.data()),
        fmt::format("GradientSync: gradient '{}' does not lie in memory of {}", gradient.name,
                    device == nullptr ? "" : device->describe()));
  }
}

void require_host_memory(bool is_requested, std::string_view option) {
  HORO_CHECK(!is_requested,
             fmt::format("GradientSync: {} requires gradients in host memory", option));
}

void check_for_device(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  require_host_memory(options.op == ReduceOp::kAdasum, "Adasum");
  require_host_memory(options.compression.kind != Compression::Kind::kNone, "compression");
  require_host_memory(options.tune_wire.has_value(), "tune_wire");
  HORO_CHECK(!options.leave_as_reduced ||
                 (!options.weighted && !options.check_finite && !options.clip_norm),
             "GradientSync: leave_as_reduced cannot be combined with weighted, clip_norm or "
             "check_finite, which need the reduced values in the gradients' own memory");
  HORO_CHECK(!options.leave_as_reduced || (!options.reorder && !options.autotune.value_or(false)),
             "GradientSync: leave_as_reduced cannot be combined with reorder or autotune, which "
             "move the reduced gradients");
  HORO_CHECK(options.chunk_bytes > 0, "GradientSync: chunk_bytes is 0; it must be at least 1");
  for (const NamedTensor& gradient : gradients)
    check_device_type("GradientSync", gradient.name, gradient.tensor.type());
}

void check_types(std::span<const NamedTensor> gradients, ReduceOp op) {
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(
        op != ReduceOp::kAverage || gradient.tensor.type() != DataType::kBool,
        fmt::format("GradientSync: average is not defined for bool (gradient '{}'); use another op",
                    gradient.name));
}

void check_floating(std::span<const NamedTensor> gradients, std::string_view what) {
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(
        is_floating(gradient.tensor.type()),
        fmt::format("GradientSync: {} requires floating-point gradients; gradient '{}' is {}", what,
                    gradient.name, name_of(gradient.tensor.type())));
}

void check_adasum(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  if (options.op != ReduceOp::kAdasum) return;
  check_floating(gradients, "Adasum");
  HORO_CHECK(!options.wire, "GradientSync: Adasum does not support a wire type; leave wire unset");
}

void check_op(const GradientSyncOptions& options, std::string_view option) {
  HORO_CHECK(options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum ||
                 options.op == ReduceOp::kAdasum,
             fmt::format("GradientSync: {} requires average, sum or adasum, not {}", option,
                         name_of(options.op)));
}

void check_step_options(std::span<const NamedTensor> gradients,
                        const GradientSyncOptions& options) {
  HORO_CHECK(options.backward_passes_per_step > 0,
             "GradientSync: backward_passes_per_step is 0; a step has at least one pass");
  HORO_CHECK(!options.reorder || options.compression.kind == Compression::Kind::kNone,
             "GradientSync: reorder cannot be combined with compression; choose one");
  if (options.find_unused) check_op(options, "find_unused");
  if (options.check_finite) check_op(options, "check_finite");
  if (options.weighted) {
    HORO_CHECK(options.op == ReduceOp::kAverage,
               fmt::format("GradientSync: weighted requires average, not {}", name_of(options.op)));
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
             "GradientSync: tune_wire cannot be combined with Adasum; leave it unset");
  HORO_CHECK(options.compression.kind != Compression::Kind::kTopK &&
                 options.compression.kind != Compression::Kind::kInt8,
             "GradientSync: tune_wire cannot be combined with top-k and int8; leave it unset");
}

void check_power_sgd(const Compression& compression) {
  HORO_CHECK(compression.rank >= 1, "GradientSync: compression.rank is 0; it must be at least 1");
  HORO_CHECK(compression.min_compression_rate >= 1,  // false for NaN
             fmt::format("GradientSync: compression.min_compression_rate is {}; it must be at "
                         "least 1",
                         compression.min_compression_rate));
}

// Top-k sends an index of 32 bits with each value.
void check_top_k(const Compression& compression, std::optional<DataType> wire,
                 std::span<const NamedTensor> gradients) {
  HORO_CHECK(compression.fraction > 0 && compression.fraction <= 1,
             fmt::format("GradientSync: compression.fraction is {}; it must be above 0 and at most "
                         "1",
                         compression.fraction));
  HORO_CHECK(!wire, fmt::format("GradientSync: top-k compression sends pairs of index and value, "
                                "to which wire type {} does not apply; leave the wire type unset",
                                name_of(*wire)));
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(gradient.tensor.count() <= std::numeric_limits<std::uint32_t>::max(),
               fmt::format("GradientSync: gradient '{}' has {} values, but top-k compression "
                           "supports at most 2^32 - 1 values per tensor; split the tensor",
                           gradient.name, gradient.tensor.count()));
}

void check_compression(const Compression& compression, ReduceOp op, std::optional<DataType> wire,
                       std::span<const NamedTensor> gradients) {
  if (compression.kind == Compression::Kind::kNone) return;
  HORO_CHECK(op == ReduceOp::kAverage || op == ReduceOp::kSum,
             fmt::format("GradientSync: compression approximates averages and sums, not {}; leave "
                         "compression.kind at kNone",
                         name_of(op)));
  HORO_CHECK(
      compression.kind == Compression::Kind::kPowerSgd ||
          compression.kind == Compression::Kind::kTopK ||
          compression.kind == Compression::Kind::kInt8,
      fmt::format("GradientSync: compression.kind is {}; it can be kNone, kPowerSgd, kTopK or "
                  "kInt8",
                  static_cast<int>(compression.kind)));
  if (compression.kind == Compression::Kind::kPowerSgd)
    check_power_sgd(compression);
  else if (compression.kind == Compression::Kind::kTopK)
    check_top_k(compression, wire, gradients);
  else
    HORO_CHECK(!wire, fmt::format("GradientSync: int8 compression sends bytes, to which wire type "
                                  "{} does not apply; leave the wire type unset",
                                  name_of(*wire)));
}

}  // namespace

// Each rank checks only its own arguments. agree_on_plan() later finds arguments that are valid but
// differ between ranks.
void check_gradients(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  check_names(gradients);
  check_one_memory(gradients);
  check_memory(gradients);
  check_types(gradients, options.op);
  check_wire(options.wire, "the wire type");
  check_tune_wire(options);
  check_adasum(gradients, options);
  check_compression(options.compression, options.op, options.wire, gradients);
  check_step_options(gradients, options);
  if (options.leave_as_reduced) {
    check_floating(gradients, "leave_as_reduced");
    HORO_CHECK(device_of(gradients) != nullptr,
               "GradientSync: leave_as_reduced requires gradients in device memory");
  }
  if (device_of(gradients) != nullptr) check_for_device(gradients, options);
}

device::Device* device_of(std::span<const NamedTensor> gradients) {
  return gradients.front().tensor.device();
}

std::vector<std::string> describe_step_options(const GradientSyncOptions& options,
                                               const device::Device* device) {
  // This statement names every field. So after a new field is added to the options, the code does
  // not compile until the field is added here. The ranks compare the first five fields elsewhere:
  // `name` as the name of the operation, and the other four in describe_plan().
  const auto& [name, op, bucket_bytes, wire, compression, first_bucket_bytes, reorder, autotune,
               tune_wire, backward_passes_per_step, find_unused, weighted, clip_norm, check_finite,
               metrics, chunk_bytes, in_place_bytes, leave_as_reduced, also_agreed] = options;
  std::vector<std::string> texts = {
      device == nullptr          ? "in host memory"
      : device::is_host(*device) ? "in memory of the stand-in"
                                 : "in memory of a GPU",
      first_bucket_bytes ? fmt::format("first_bucket_bytes = {}", *first_bucket_bytes)
                         : "first_bucket_bytes unset",
      fmt::format("reorder = {}", reorder),
      fmt::format("autotune = {}", autotune.value_or(false)),
      tune_wire ? fmt::format("tune_wire = {}", name_of(*tune_wire)) : "tune_wire unset",
      fmt::format("backward_passes_per_step = {}", backward_passes_per_step),
      fmt::format("find_unused = {}", find_unused),
      fmt::format("weighted = {}", weighted),
      clip_norm ? fmt::format("clip_norm = {}", *clip_norm) : "clip_norm unset",
      fmt::format("check_finite = {}", check_finite),
      fmt::format("metrics = [{}]", fmt::join(metrics, ", ")),
      fmt::format("chunk_bytes = {}", chunk_bytes),
      in_place_bytes ? fmt::format("in_place_bytes = {}", *in_place_bytes)
                     : "in_place_bytes is unset",
      fmt::format("leave_as_reduced = {}", leave_as_reduced),
      fmt::format("also_agreed has {} texts", also_agreed.size())};
  texts.insert(texts.end(), also_agreed.begin(), also_agreed.end());
  return texts;
}

}  // namespace horo
