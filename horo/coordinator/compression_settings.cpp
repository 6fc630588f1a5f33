#include "horo/coordinator/compression_settings.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using Kind = Compression::Kind;

void check_power_sgd(const Compression& compression) {
  HORO_CHECK(compression.rank >= 1, "GradientSync: compression.rank is 0; it must be at least 1");
  HORO_CHECK(compression.min_compression_rate >= 1,  // not NaN either
             fmt::format("GradientSync: compression.min_compression_rate is {}; it must be at "
                         "least 1",
                         compression.min_compression_rate));
}

void check_top_k(const Compression& compression, std::optional<DataType> wire,
                 std::span<const NamedTensor> gradients) {
  HORO_CHECK(compression.fraction > 0 && compression.fraction <= 1,
             fmt::format("GradientSync: compression.fraction is {}; it must be above 0 and at most "
                         "1",
                         compression.fraction));
  HORO_CHECK(!wire, fmt::format("GradientSync: top-k compression sends pairs of place and value, "
                                "which wire type {} does not shorten; leave the wire type unset",
                                horo::name_of(*wire)));
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(gradient.tensor.count() <= std::numeric_limits<std::uint32_t>::max(),
               fmt::format("GradientSync: gradient '{}' has {} values, top-k compression takes at "
                           "most 2^32 - 1 of one tensor; divide it",
                           gradient.name, gradient.tensor.count()));
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kPowerSgd:
      return "powersgd";
    case Kind::kTopK:
      return "topk";
  }
  return "unknown";
}

}  // namespace

void check_compression(const Compression& compression, ReduceOp op, std::optional<DataType> wire,
                       std::span<const NamedTensor> gradients) {
  if (compression.kind == Kind::kNone) return;
  HORO_CHECK(op == ReduceOp::kAverage || op == ReduceOp::kSum,
             fmt::format("GradientSync: compression approximates averages and sums, not {}; leave "
                         "compression.kind at kNone",
                         horo::name_of(op)));
  HORO_CHECK(
      compression.kind == Kind::kPowerSgd || compression.kind == Kind::kTopK,
      fmt::format("GradientSync: compression.kind is {}; it can be kNone, kPowerSgd or kTopK",
                  static_cast<int>(compression.kind)));
  if (compression.kind == Kind::kPowerSgd)
    check_power_sgd(compression);
  else
    check_top_k(compression, wire, gradients);
}

std::vector<std::string> describe_compression(const Compression& compression) {
  std::vector<std::string> fields;
  const auto add = [&fields](std::string_view field, const auto& value) {
    fields.push_back(fmt::format("compression.{} = {}", field, value));
  };
  add("kind", name_of(compression.kind));
  if (compression.kind == Kind::kNone) return fields;
  add("error_feedback", compression.error_feedback);
  add("start_step", compression.start_step);
  if (compression.kind == Kind::kPowerSgd) {
    add("rank", compression.rank);
    add("min_compression_rate", compression.min_compression_rate);
    add("warm_start", compression.warm_start);
    add("seed", compression.seed);
  } else {
    add("fraction", compression.fraction);
  }
  return fields;
}

}  // namespace horo::coordinator
