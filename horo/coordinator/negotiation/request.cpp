#include "horo/coordinator/negotiation/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace horo::coordinator {
namespace {

// In an allgather or alltoall, the first dimension may differ between ranks. The shapes of these
// kinds have at least one dimension.
bool shapes_agree(const Request& a, const Request& b) {
  if (!has_own_rows(a.kind)) return a.shape == b.shape;
  if (a.shape.rank() != b.shape.rank()) return false;
  return std::equal(a.shape.dimensions().begin() + 1, a.shape.dimensions().end(),
                    b.shape.dimensions().begin() + 1);
}

constexpr std::string_view kOtherScale = "the scale factors differ";

std::string describe(const ScaleFactors& scale) {
  return fmt::format("prescale {} postscale {}", scale.before, scale.after);
}

// Returns a text about the first difference, or an empty text if the requests agree. Checks general
// differences first, because the shapes of operations of different kinds cannot be compared.
std::string_view differing_field(const Request& a, const Request& b) {
  if (a.kind != b.kind) return "the operations differ";
  if (a.device_queue != b.device_queue)
    return a.device_queue == 0 || b.device_queue == 0
               ? "one is in host memory, the other on a device"
               : "the ranks first used these devices in different orders";
  if (a.members.empty() != b.members.empty()) return "one is a group";
  if (a.type != b.type) return "the element types differ";
  if (a.op != b.op) return "the reduce operations differ";
  if (a.scale != b.scale) return kOtherScale;
  if (a.root != b.root) return "the roots differ";
  if (!shapes_agree(a, b)) return "the shapes differ";
  if (a.members != b.members) return "the groups differ";
  return {};
}

// Returns a text such as "'fc1' as float32 [3]", or "only 2 tensors" if `index` is 2 and the group
// has only 2 tensors.
std::string describe_member(const Request& group, std::size_t index) {
  if (index >= group.members.size()) return fmt::format("only {} tensors", index);
  const Request::Member& member = group.members[index];
  return fmt::format("'{}' as {} {}", member.name, horo::name_of(member.type),
                     member.shape.to_string());
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKindCount> kNames = {
      "allreduce", "broadcast", "allgather", "reduce_scatter", "alltoall", "barrier",
      "task",      "shutdown",  "join"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::size_t Request::bytes() const {
  if (members.empty()) return shape.count() * size_of(type);
  std::size_t sum = 0;
  for (const Member& member : members) sum += member.shape.count() * size_of(member.type);
  return sum;
}

std::string Request::describe() const {
  std::string text(name_of(kind));
  if (kind == Kind::kAllreduce || kind == Kind::kReduceScatter)
    text += fmt::format(" ({}{})", horo::name_of(op),
                        scale.are_one() ? "" : ", " + coordinator::describe(scale));
  if (kind == Kind::kBroadcast) text += fmt::format(" from rank {}", root);
  if (!members.empty())
    text += fmt::format(" of a group of {} tensors", members.size());
  else if (kind <= Kind::kAlltoall)
    text += fmt::format(" of {} {}", horo::name_of(type), shape.to_string());
  if (device_queue != 0) text += " on a device";
  return text;
}

std::string describe_mismatch(const Request& a, const std::string& first, const Request& b,
                              const std::string& second) {
  const std::string_view field = differing_field(a, b);
  if (field.empty()) return {};
  std::string text = fmt::format("tensor '{}': {} submitted {}, {} submitted {}: {}", a.name, first,
                                 a.describe(), second, b.describe(), field);
  if (field == kOtherScale)
    return text + fmt::format(", {} and {}", describe(a.scale), describe(b.scale));
  if (a.members.empty() || b.members.empty() || a.members == b.members) return text;
  const auto differing = std::ranges::mismatch(a.members, b.members).in1;
  const auto index = static_cast<std::size_t>(differing - a.members.begin());
  return text + fmt::format(", tensor {} is {} and {}", index, describe_member(a, index),
                            describe_member(b, index));
}

bool requests_agree(const Request& a, const Request& b) { return differing_field(a, b).empty(); }

}  // namespace horo::coordinator
