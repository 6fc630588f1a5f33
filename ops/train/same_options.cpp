#include "ops/train/same_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace horo::ops {
namespace {

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

void require_same_options(Context& context, std::span<const std::string> options) {
  const std::string own = fmt::format("{}", fmt::join(options, "\n"));
  const std::vector<std::vector<std::byte>> all =
      context.allgather_object(std::as_bytes(std::span(own)), {.name = "train.options"});
  const auto text_of = [&](std::size_t rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::string_view first = text_of(0), other = text_of(rank);
    while (!first.empty() || !other.empty()) {
      const std::string_view a = next_line(first), b = next_line(other);
      if (a != b)
        throw MismatchError(
            fmt::format("Trainer options differ between ranks: {} on rank 0, {} on rank {}; pass "
                        "the same options on every rank",
                        a, b, rank));
    }
  }
}

}  // namespace horo::ops
