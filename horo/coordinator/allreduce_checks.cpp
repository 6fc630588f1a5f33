#include "horo/coordinator/allreduce_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/host/host_device.h"

namespace horo {
namespace {

// `type` must be a floating-point type. All of them except float64 are multiplied in float32.
bool is_in_range(double factor, DataType type) {
  if (type == DataType::kFloat64) return std::isfinite(factor);
  return std::abs(factor) <= static_cast<double>(std::numeric_limits<float>::max());
}

void check_factor(std::string_view operation, const std::string& name, DataType type,
                  std::string_view option, double factor) {
  if (factor == 1) return;
  HORO_CHECK(std::isfinite(factor), fmt::format("{} '{}': {} is {}; it must be a finite number",
                                                operation, name, option, factor));
  HORO_CHECK(
      is_floating(type),
      fmt::format("{} '{}': {} is {}, but must be 1 for {}, which is not a floating-point type",
                  operation, name, option, factor, name_of(type)));
  HORO_CHECK(is_in_range(factor, type),
             fmt::format(
                 "{} '{}': {} is {}, which exceeds the range of float32, in which {} is multiplied",
                 operation, name, option, factor, name_of(type)));
}

// Compares addresses as integers, because pointers into different objects have no defined order.
bool overlap(const ConstTensorView& a, const ConstTensorView& b) {
  const auto first = reinterpret_cast<std::uintptr_t>(a.data());
  const auto second = reinterpret_cast<std::uintptr_t>(b.data());
  return first < second + b.bytes() && second < first + a.bytes();
}

}  // namespace

void check_op_type(std::string_view operation, const std::string& name, ReduceOp op,
                   DataType type) {
  HORO_CHECK(
      is_elementwise(op) || is_floating(type),
      fmt::format("{} '{}': Adasum requires a floating-point type, not {}; use ReduceOp::kSum",
                  operation, name, name_of(type)));
  HORO_CHECK(op != ReduceOp::kAverage || type != DataType::kBool,
             fmt::format("{} '{}': average is not defined for bool; use ReduceOp::kSum or kMax "
                         "(\"or\"), or kProduct or kMin (\"and\")",
                         operation, name));
}

void check_device_type(std::string_view operation, const std::string& name, DataType type) {
  HORO_CHECK(type != DataType::kInt16 && type != DataType::kUInt16,
             fmt::format("{} '{}': {} cannot be reduced on a device; convert it to int32",
                         operation, name, horo::name_of(type)));
}

void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors) {
  check_factor(operation, name, type, "prescale", factors.before);
  check_factor(operation, name, type, "postscale", factors.after);
}

void check_allreduce_output(const std::string& name, const ConstTensorView& input,
                            const TensorView& output) {
  for (const auto& [tensor, what] :
       {std::pair<const ConstTensorView*, const char*>(&input, "input"), {&output, "output"}})
    HORO_CHECK(tensor->data() != nullptr || tensor->count() == 0,
               fmt::format("allreduce '{}': the {} has no memory", name, what));
  HORO_CHECK(input.type() == output.type(),
             fmt::format("allreduce '{}': input is {}, output is {}", name, name_of(input.type()),
                         name_of(output.type())));
  HORO_CHECK(input.shape() == output.shape(),
             fmt::format("allreduce '{}': input {} and output {} must have the same shape", name,
                         input.shape().to_string(), output.shape().to_string()));
  HORO_CHECK(input.data() == output.data() || !overlap(input, output),
             fmt::format("allreduce '{}': input and output overlap; pass the same memory for both, "
                         "or memory that does not overlap",
                         name));
}

std::string describe_memory(const device::Device* device) {
  return device == nullptr ? "host memory" : "memory of " + device->describe();
}

void check_stream(std::string_view what, const device::Device& device, const void* stream) {
  HORO_CHECK(stream != nullptr || !device::is_host(device),
             fmt::format("{}: options.stream is null, and {} has no default stream", what,
                         device.describe()));
}

std::string find_overlap(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> by_address;
  by_address.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors)
    if (tensor.tensor.bytes() > 0) by_address.push_back(&tensor);
  const auto address_of = [](const NamedTensor* tensor) { return tensor->tensor.data(); };
  // Skips the sort if the tensors are already in ascending or descending order of address. This
  // saves time in every allreduce of such a group.
  if (!std::ranges::is_sorted(by_address, std::less<>(), address_of)) {
    if (std::ranges::is_sorted(by_address, std::greater<>(), address_of))
      std::ranges::reverse(by_address);
    else
      std::ranges::stable_sort(by_address, std::less<>(), address_of);
  }
  // If any two tensors overlap, then two neighbours in ascending order of address overlap.
  const auto found = std::ranges::adjacent_find(
      by_address, [](const auto* a, const auto* b) { return overlap(a->tensor, b->tensor); });
  if (found == by_address.end()) return {};
  return fmt::format("'{}' and '{}' overlap in memory", found[0]->name, found[1]->name);
}

void check_apart(std::span<const NamedTensor> tensors) {
  const std::string problem = find_overlap(tensors);
  HORO_CHECK(problem.empty(),
             fmt::format("allreduce of a group: {}; tensors of a group must not overlap", problem));
}

}  // namespace horo
