#include "horo/coordinator/request.h"

#include <fmt/format.h>

#include <array>

namespace horo::coordinator {

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKindCount> kNames = {
      "allreduce", "broadcast", "allgather", "reduce_scatter",
      "alltoall",  "barrier",   "task",      "shutdown"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string Request::describe() const {
  std::string text(name_of(kind));
  if (kind == Kind::kAllreduce || kind == Kind::kReduceScatter)
    text += fmt::format(" ({})", horo::name_of(op));
  if (kind == Kind::kBroadcast) text += fmt::format(" from rank {}", root);
  if (kind <= Kind::kAlltoall)
    text += fmt::format(" of {} {}", horo::name_of(type), shape.to_string());
  return text;
}

}  // namespace horo::coordinator
